/* Codecs: forms of fp32 values that take fewer bytes on a slow link.
 *
 * A codec is a value with a text form: a name and up to three numbers.
 *
 *   text                    bytes of n values    an element x becomes
 *   none                    4 n                  x
 *   bf16, fp16              2 n                  the nearest value of the format
 *   fp8_e4m3, fp8_e5m2      n                    the nearest value of the format; it saturates
 *   int8_block:BLOCK        n + 4 a block        q * scale, q from -127 to 127
 *   int4_block:BLOCK        n / 2 + 4 a block    q * scale, q from -7 to 7
 *   e3m0:BLOCK              n / 2 + 1 a block    0 or one of seven powers of two, and a sign
 *   log_byte                n                    a sign and exp(p / 8), p from -63 to 63, or 0
 *   top_k:TILE:KEPT:BITS    4 a tile, and        the KEPT largest magnitudes of each TILE as
 *                           KEPT * (index + BITS) bits      q * scale; all others 0
 *
 * Numbers that are left out have the values that tuttiCodecList() shows. Blocks and tiles are
 * counted from the first value; the last one may be short. The bytes of a part that begins and ends
 * between blocks are those of the part encoded alone, so threads may share the work.
 *
 * Error:    tuttiCodecGetFacts() bounds it: with y for what becomes of x, and `largest` for the
 *           largest magnitude of x's block, |x - y| is at most
 *           max(relative * |x|, of_largest * largest, least), as long as |x| <= saturates.
 * Ties:     to the even code, as IEEE 754 rounds; e3m0: to the larger magnitude; log_byte: each
 *           border belongs to the larger magnitude. Of equal magnitudes top_k keeps those with the
 *           lowest indices. tuttiCodecEncodeStochastic() rounds at random instead.
 * NaN:      none, bf16 and fp16 keep NaN and infinity, the fp8 formats keep NaN and saturate
 *           infinity, log_byte makes NaN of both. In the others a block that holds one decodes to
 *           NaN; so do the KEPT values of a tile. Encoding refuses what a codec cannot carry,
 *           unless TUTTI_CODEC_PROPAGATE says that this is wanted.
 * Scale:    of int8_block, int4_block and top_k: largest / levels in fp32, cut to 16 significant
 *           bits and at least 2^-126 (1 if the block has zeros only). So q * scale is exact, and
 *           values that were decoded once are encoded to the same values again.
 * Sums:     always in fp32, one addition an element, in the order of the calls.
 *
 * Owns:     the caller owns all memory; a codec owns nothing. Encoded bytes need no alignment.
 * Units:    counts are numbers of fp32 values. Byte order is little-endian.
 * Threads:  any; functions of their arguments alone.
 * Errors:   tuttiInvalidArgument, and tuttiGetLastError(NULL) says what to change. Bytes that no
 *           encoder writes are refused by decoding.
 */
#ifndef TUTTI_CODECS_H_
#define TUTTI_CODECS_H_

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A codec. tuttiCodecParse() and tuttiCodecList() make it; two that are equal have equal bytes, so
 * ranks can send codecs to each other. */
typedef struct {
  char name[24];  /* ends with a NUL */
  uint32_t block; /* values that share a scale, or of a tile; 0: the codec has no blocks */
  uint32_t kept;  /* of each tile, for top_k; else 0 */
  uint32_t bits;  /* of a kept value, for top_k; else 0 */
  uint32_t reserved;
} tuttiCodec_t;

/* Reads a codec's text form, for example "int8_block:256" or "bf16". Blocks are multiples of 8 from
 * 8 to 1048576, tiles from 8 to 65536; KEPT is 1 to TILE, and BITS is 2 to 8. */
TUTTI_API tuttiResult_t tuttiCodecParse(const char* text, tuttiCodec_t* codec);
/* Writes the text form with all its numbers and a NUL; 64 bytes are always enough. */
TUTTI_API tuttiResult_t tuttiCodecText(const tuttiCodec_t* codec, char* text, size_t bytes);
/* The codec of this index, which counts from 0, with its usual numbers. An index beyond the last
 * one is tuttiInvalidArgument. */
TUTTI_API tuttiResult_t tuttiCodecList(int index, tuttiCodec_t* codec);

typedef struct {
  size_t size;    /* sizeof(tuttiCodecFacts_t), set by the caller */
  float relative; /* these three bound the error, as said above */
  float of_largest;
  float least;
  float saturates; /* a larger magnitude becomes this one; infinity: none does */
  float accepts;   /* encoding refuses larger magnitudes; NaN: it refuses nothing */
  float conserves; /* the same for tuttiCodecEncodeFeedback() */
} tuttiCodecFacts_t;
TUTTI_API tuttiResult_t tuttiCodecGetFacts(const tuttiCodec_t* codec, tuttiCodecFacts_t* facts);

/* Sets *bytes to the bytes of `count` encoded values. */
TUTTI_API tuttiResult_t tuttiCodecBytes(const tuttiCodec_t* codec, size_t count, size_t* bytes);

#define TUTTI_CODEC_REFUSE 0    /* values that the codec cannot carry are an error that names one */
#define TUTTI_CODEC_PROPAGATE 1 /* they become what this header says */

/* Encodes `count` values. After an error nothing was written. The two must not overlap. */
TUTTI_API tuttiResult_t tuttiCodecEncode(const tuttiCodec_t* codec, const float* values,
                                         size_t count, void* encoded, int flags);
/* The random numbers of a stochastic rounding: a function of these numbers and of each value's
 * index, so results depend neither on threads nor on how an array is cut. */
typedef struct {
  size_t size; /* sizeof(tuttiCodecDraws_t) */
  uint64_t seed;
  uint64_t step;
  uint64_t rank;  /* ranks with equal numbers round equally */
  uint64_t first; /* index of the first value in its array, a multiple of the block */
} tuttiCodecDraws_t;

/* The same as tuttiCodecEncode() with TUTTI_CODEC_REFUSE, but each value is rounded up or down such
 * that the mean over many draws is the value: to one of the two next levels, for int8_block and
 * int4_block. So the error is at most twice the bound above. Other codecs round to nearest only,
 * which is tuttiUnsupported. */
TUTTI_API tuttiResult_t tuttiCodecEncodeStochastic(const tuttiCodec_t* codec, const float* values,
                                                   size_t count, const tuttiCodecDraws_t* draws,
                                                   void* encoded);
/* Decodes `count` values. After an error `values` are undefined. */
TUTTI_API tuttiResult_t tuttiCodecDecode(const tuttiCodec_t* codec, const void* encoded,
                                         size_t count, float* values);
/* Adds what decoding gives to `sums`. After an error `sums` are undefined. */
TUTTI_API tuttiResult_t tuttiCodecDecodeAdd(const tuttiCodec_t* codec, const void* encoded,
                                            size_t count, float* sums);

/* Error feedback: what a codec leaves out is kept and added to what is encoded next. */
typedef struct {
  size_t size;  /* sizeof(tuttiCodecFeedback_t) */
  float* error; /* `count` values, zeros at first; owned by the caller */
  size_t count;
  float beta;   /* 0 to 1: how much of the error is kept */
  int reserved; /* 0 */
} tuttiCodecFeedback_t;

/* Encodes a = beta * error + input, rounded to fp32 after the product and after the sum, and leaves
 * a - decoded in `error`. That difference is exact for every codec, since all values of a codec
 * are so coarse that the rest of an fp32 value fits fp32: new error + decoded == a in real numbers.
 * Only `a` beyond `conserves` would break it, and such a value is refused, as is NaN. After an
 * error neither `error` nor `encoded` has changed. `count` is that of the state. */
TUTTI_API tuttiResult_t tuttiCodecEncodeFeedback(const tuttiCodec_t* codec, const float* input,
                                                 size_t count, const tuttiCodecFeedback_t* feedback,
                                                 void* encoded);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_CODECS_H_ */
