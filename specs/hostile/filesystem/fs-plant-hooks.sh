#!/usr/bin/env bash
# fs-plant-hooks  [filesystem]
# Tries: plant what later programs of the same run would load (LD_PRELOAD, sitecustomize, .pth,
# BASH_ENV, gitconfig) in every writable place, then call set-id programs and the dynamic
# loader with them
# Must hold afterwards: the hooks act as this user only: no identity changes, no host file
# opens
# Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
id -u > before
for d in /work /tmp /dev/shm "$HOME"; do
  for f in sitecustomize.py usercustomize.py; do echo 'import os; print("hook as", os.getuid())' > "$d/$f" 2>/dev/null; done
  echo 'import os' > "$d/hostile.pth" 2>/dev/null
  echo 'echo hook' > "$d/.bashrc" 2>/dev/null
done
export LD_PRELOAD=/work/none.so LD_LIBRARY_PATH=/work:/tmp LD_AUDIT=/work/none.so GCONV_PATH=/work PYTHONPATH=/work:/tmp BASH_ENV=/work/.bashrc GIT_CONFIG_GLOBAL=/work/.gitconfig
echo '#!/bin/sh' > /work/env; echo 'id -u' >> /work/env; chmod 755 /work/env
for p in /usr/bin/su /usr/bin/sudo /usr/bin/mount /usr/bin/newuidmap /usr/bin/pkexec /usr/bin/chsh /usr/bin/fusermount3; do
  [ -x "$p" ] || continue
  out=$(timeout 2 "$p" -c 'id -u' </dev/null 2>/dev/null)
  [ "$out" = 0 ] && [ "$(cat before)" != 0 ] && echo "ESCAPED:$p gave root"
done
unset LD_PRELOAD LD_AUDIT
: > /etc/ld.so.preload 2>/dev/null && echo ESCAPED:ld.so.preload
for loader in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do
  [ -x $loader ] && $loader /bin/cat /var/tmp/hostile-canary/secret.txt 2>/dev/null && echo ESCAPED:canary by the loader
done
echo CONTAINED
