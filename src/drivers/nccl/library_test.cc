#include "src/drivers/nccl/library.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "plugins/nccl/abi.h"

namespace tutti::drivers::nccl {
namespace {

// The drop-in's own description of NCCL's interface is compared with NCCL's header by its tests.
TEST(NcclLibrary, ItsConfigurationHasNcclsLayout) {
  EXPECT_EQ(offsetof(NcclConfig, magic), offsetof(ncclConfig_t, magic));
  EXPECT_EQ(offsetof(NcclConfig, version), offsetof(ncclConfig_t, version));
  EXPECT_EQ(offsetof(NcclConfig, blocking), offsetof(ncclConfig_t, blocking));
  EXPECT_EQ(offsetof(NcclConfig, most_ctas), offsetof(ncclConfig_t, maxCTAs));
  EXPECT_EQ(offsetof(NcclConfig, network), offsetof(ncclConfig_t, netName));
  EXPECT_EQ(offsetof(NcclConfig, split_share), offsetof(ncclConfig_t, splitShare));
  EXPECT_EQ(offsetof(NcclConfig, name), offsetof(ncclConfig_t, commName));
  EXPECT_EQ(offsetof(NcclConfig, nvls_ctas), offsetof(ncclConfig_t, nvlsCTAs));
  EXPECT_EQ(sizeof(NcclConfig), offsetof(ncclConfig_t, nChannelsPerNetPeer));
  EXPECT_EQ(sizeof(NcclId), sizeof(ncclUniqueId));
  EXPECT_EQ(kMagic, NCCL_API_MAGIC);
  EXPECT_EQ(kUnsetInt, NCCL_CONFIG_UNDEF_INT);
  EXPECT_EQ(static_cast<int>(kInProgress), static_cast<int>(ncclInProgress));
  EXPECT_EQ(static_cast<int>(kRemoteError), static_cast<int>(ncclRemoteError));
  EXPECT_EQ(kNamedOps, ncclNumOps);
  EXPECT_EQ(kTypesWithFp8, ncclNumTypes);
  EXPECT_EQ(kScalarIsOnDevice, ncclScalarDevice);
}

TEST(NcclLibrary, ThatIsAbsentIsRefusedWithTheLoadersWords) {
  const Result<Nccl> loaded = Nccl::load("/no/such/libnccl.so.2");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), Code::kUnsupported);
  EXPECT_NE(loaded.status().message().find("/no/such/libnccl.so.2"), std::string::npos);
}

TEST(NcclLibrary, IsLookedForBesideTheTorchThatIsLoaded) {
  const char* const maps =
      "7f00-7f01 r-xp 00000000 08:01 1    /usr/lib/libc.so.6\n"
      "7f02-7f03 r--p 00000000 08:01 2    /opt/my env/site-packages/torch/lib/libtorch_cuda.so\n"
      "7f04-7f05 r--p 00000000 08:01 3    /opt/other/torch/lib/libtorch_cuda.so\n";
  EXPECT_EQ(files_beside_torch(maps),
            std::vector<std::string>{"/opt/my env/site-packages/nvidia/nccl/lib/libnccl.so.2"});
  EXPECT_TRUE(files_beside_torch("7f00-7f01 r-xp 0 08:01 1 /usr/lib/libc.so.6\n").empty());
  EXPECT_TRUE(files_beside_torch("").empty());
}

TEST(NcclLibrary, IsLookedForWhereTheLoaderLooks) {
  EXPECT_FALSE(likely_files().empty());
  for (const std::string& file : likely_files()) {
    EXPECT_TRUE(file.ends_with("/libnccl.so.2")) << file;
  }
}

}  // namespace
}  // namespace tutti::drivers::nccl
