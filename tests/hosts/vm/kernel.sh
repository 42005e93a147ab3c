# The guest's kernel: a Debian package's, unpacked to a folder of the cache. Sourced by rxe-vm, which
# has die(), $me, $cache, $format, $busybox, $here and cleanup_dirs.

# modules the guest loads at once (with what they depend on); all the others
# of the package that are kept are loaded when the kernel asks for them
boot_modules="virtio_mmio virtio_pci virtio_console 9pnet_virtio 9p overlay
              crc32_generic ib_uverbs rdma_rxe rdma_ucm veth dummy bridge
              sch_netem"

le() {          # le FILE OFFSET BYTES: a little-endian number
    od -An -v -tu1 -j"$2" -N"$3" "$1" | awk '{ for (i = NF; i; i--) v = v * 256 + $i } END { printf "%d", v }'
}

# The kernel proper, out of a bzImage: qemu starts that directly, and the
# emulated processor needs not decompress it (some 10 s).
unwrap() {      # unwrap BZIMAGE OUT
    local at len magic tool
    at=$(( ($(le "$1" 0x1f1 1) + 1) * 512 + $(le "$1" 0x248 4) ))
    len=$(le "$1" 0x24c 4)
    magic=$(od -An -v -tx1 -j$at -N4 "$1" | tr -d ' \n')
    case $magic in
        fd377a58) tool='xz -dcq --single-stream' ;;
        28b52ffd) tool='zstd -dcq' ;;
        1f8b*)    tool='gzip -dcq' ;;
        *)        return 1 ;;
    esac
    # four bytes after the compressed data hold the size
    tail -c +$((at + 1)) "$1" | head -c $((len - 4)) | $tool >"$2" 2>/dev/null
    [ "$(head -c 4 "$2" | tail -c 3)" = ELF ] && grep -q Xen "$2"
}

unpack() {      # unpack IMAGE MODULES VERSION: fill the cache
    local image=$1 modules=$2 version=$3 to tmp d m list
    mkdir -p "$cache" || die "cannot write $cache"
    to=$cache/$version
    tmp=$(mktemp -d "$cache/tmp.XXXXXX") || die "cannot write $cache"
    cleanup_dirs+=("$tmp")
    mkdir -p "$tmp/lib/modules/$version/kernel/drivers/net"
    d=$tmp/lib/modules/$version
    cp "$modules"/modules.{order,builtin,builtin.modinfo} "$d" 2>/dev/null
    for m in arch crypto fs lib mm net drivers/{block,char,infiniband,virtio}; do
        [ -d "$modules/kernel/$m" ] || continue
        mkdir -p "$d/kernel/${m%/*}"
        cp -r "$modules/kernel/$m" "$d/kernel/$m" || die "cannot copy the kernel's modules"
    done
    find "$modules/kernel/drivers/net" -maxdepth 1 -name '*.ko*' \
         -exec cp -t "$d/kernel/drivers/net" {} +
    find "$d" -name '*.ko.xz' -exec xz -d {} +
    find "$d" -name '*.ko.zst' -exec zstd -q -d --rm {} +
    (cd "$tmp" && "$busybox" depmod -b "$tmp" "$version") 2>/dev/null
    [ -s "$d/modules.dep" ] || die "depmod failed"

    if ! unwrap "$image" "$tmp/kernel"; then
        cp "$image" "$tmp/kernel" || die "cannot copy $image"
    fi

    # the initial file system: busybox, the modules in the order to load them
    mkdir -p "$tmp/root/bin" "$tmp/root/mod"
    cp "$busybox" "$tmp/root/bin/busybox"
    list=$(awk -v want="$boot_modules" '
        function name(path) { sub(/.*\//, "", path); sub(/\.ko.*/, "", path); gsub(/-/, "_", path); return path }
        function load(m,    i, n, part) {
            if (m in done) return
            done[m] = 1
            n = split(deps[m], part, " ")
            for (i = n; i; i--) load(name(part[i]))
            if (m in file) print file[m]
        }
        { f = $1; sub(/:$/, "", f); m = name(f); file[m] = f; $1 = ""; deps[m] = $0 }
        END { n = split(want, w, " "); for (i = 1; i <= n; i++) load(w[i]) }' "$d/modules.dep")
    case $list in *rdma_rxe*) ;; *) die "this kernel has no rdma_rxe: $version" ;; esac
    for m in $list; do
        cp "$d/$m" "$tmp/root/mod/" && echo "${m##*/}" >>"$tmp/root/mod/order"
    done
    install -m 755 "$here/guest/init" "$tmp/root/init"
    (cd "$tmp/root" && find . | "$busybox" cpio -o -H newc >"$tmp/initramfs" 2>/dev/null) ||
        die "cpio failed"
    rm -rf "$tmp/root"
    echo "$format" >"$tmp/format"
    rm -rf "$to"
    mv -T "$tmp" "$to" || die "cannot write $to"
}

from_deb() {
    local t image version
    case $1 in /*) t=$1 ;; *) t=$PWD/$1 ;; esac
    [ -r "$t" ] || die "cannot read $1"
    mkdir -p "$cache" || die "cannot write $cache"
    local x; x=$(mktemp -d "$cache/deb.XXXXXX") || die "cannot write $cache"
    cleanup_dirs+=("$x")
    if type -P dpkg-deb >/dev/null; then dpkg-deb -x "$t" "$x"
    else "$busybox" dpkg-deb -x "$t" "$x"; fi || die "cannot unpack $1"
    image=$(ls "$x"/boot/vmlinuz-* 2>/dev/null | head -n 1)
    [ -n "$image" ] || die "no kernel in $1 (is it a linux-image-<version>-amd64 package?)"
    version=${image##*/vmlinuz-}
    local modules=$x/lib/modules/$version
    [ -d "$modules" ] || modules=$x/usr/lib/modules/$version
    unpack "$image" "$modules" "$version"
    rm -rf "$x"
}

local_kernel() {        # unpack what is on this host already; fails if nothing is
    local f v
    for f in /boot/vmlinuz-*; do
        v=${f##*/vmlinuz-}
        if [ -r "$f" ] && ls /lib/modules/"$v"/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko* >/dev/null 2>&1; then
            unpack "$f" "/lib/modules/$v" "$v"; return
        fi
    done
    for f in /var/cache/apt/archives/linux-image-[0-9]*-amd64_*.deb; do
        case $f in *unsigned*|*cloud*|*-rt-*|*dbg*) continue ;; esac
        [ -r "$f" ] && { from_deb "$f"; return; }
    done
    return 1
}

download_kernel() {
    local p d
    type -P apt-get >/dev/null || die "no apt-get here; pass a linux-image package to --prepare"
    p=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '$1 == "Depends:" && /linux-image/ { print $2; exit }')
    [ -n "$p" ] || die "apt knows no linux-image-amd64 (apt-get update?)"
    d=$(mktemp -d) || die "no temporary directory"
    cleanup_dirs+=("$d")
    echo "$me: apt-get download $p" >&2
    (cd "$d" && apt-get download "$p" >/dev/null 2>"$d/log") || { cat "$d/log" >&2; die "cannot download $p"; }
    from_deb "$d"/linux-image-*.deb
}

kernel=         # the directory of the cache in use
find_kernel() {
    local d
    kernel=
    # the newest one that this version of the script made
    while IFS= read -r d; do
        [ "$(cat "$d/format" 2>/dev/null)" = "$format" ] && [ -s "$d/kernel" ] &&
            [ -s "$d/initramfs" ] && kernel=$d
    done < <(ls -1d "$cache"/[0-9]* 2>/dev/null | sort -V)
    [ -n "$kernel" ]
}
