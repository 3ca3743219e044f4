#!/bin/sh
# The in-band agent: first process of the initramfs that iPXE loads.  It asks the provisioning
# service for this machine's order, carries it out with the machine's own disk and NICs, reports,
# and powers off (inspect, erase) or idles until the power is cut (deploy).
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
export PATH=/usr/bin:/bin

say() { echo "agent: $*" >/dev/console; }

argument() { # the value of NAME=VALUE on the kernel command line
	for word in $(cat /proc/cmdline); do
		case $word in "$1="*) echo "${word#*=}" ;; esac
	done
}

while read -r module; do insmod "/modules/$module" 2>/dev/null; done </modules/order

BOOT_MAC=$(argument BOOTIF | tr A-Z a-z)
ORDER_URL=$(argument ogai.order)
BASE_URL=${ORDER_URL%.*}

find_nic() { # the NIC that the firmware booted from; others may have no cable
	for nic in /sys/class/net/*; do
		[ "$(cat "$nic/address")" = "$BOOT_MAC" ] && basename "$nic" && return
	done
}

cat >/tmp/lease <<'SCRIPT'
#!/bin/sh
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ifconfig "$interface" "$ip" netmask "$subnet"
[ -z "$router" ] || route add default gw "${router%% *}"
SCRIPT
chmod +x /tmp/lease

until NIC=$(find_nic) && [ -n "$NIC" ]; do sleep 0.2; done
ifconfig lo 127.0.0.1
ifconfig "$NIC" up
until udhcpc -q -n -t 5 -T 2 -i "$NIC" -s /tmp/lease >/dev/null 2>&1; do say "no address yet"; done

# (Debian 12's busybox crashes on `wget -T`: `timeout` does its work.)
post() { # EVENT, JSON members after the token; a service that does not answer is asked again
	while :; do
		timeout 20 wget -q -O /dev/null --header 'Content-Type: application/json' \
			--post-data "{\"token\":\"$OGAI_TOKEN\"${2:+,$2}}" "$BASE_URL/$1" && return
		say "could not report $1"
		sleep 3
	done
}

disks() { # whole disks that hold data of the machine
	for disk in /sys/block/nvme* /sys/block/vd* /sys/block/sd*; do
		[ -e "$disk" ] && basename "$disk"
	done
}

joined() { tr '\n' ',' | sed 's/,$//'; }

inspect() {
	disk_list=$(for disk in $(disks); do
		echo "{\"name\":\"$disk\",\"size_bytes\":$(($(cat "/sys/block/$disk/size") * 512)),\"kind\":\"disk\"}"
	done | joined)
	# What is at the other end of each cable; switches announce it by LLDP, the lab by its firmware.
	wiring=/sys/firmware/qemu_fw_cfg/by_name/opt/ogai/wiring/raw
	nic_list=$(for nic in /sys/class/net/*; do
		grep -i "^$(cat "$nic/address") " "$wiring" | cut -d ' ' -f 2-
	done | joined)
	model=$(grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: //')
	memory=$(($(grep MemTotal /proc/meminfo | tr -dc 0-9) * 1024))
	post facts "\"serial\":\"$(cat /sys/class/dmi/id/product_serial)\",\"arch\":\"$(uname -m)\",\
\"cpu\":{\"model\":\"$model\",\"cores\":$(grep -c ^processor /proc/cpuinfo)},\"memory_bytes\":$memory,\
\"disks\":[$disk_list],\"nics\":[$nic_list],\"accelerators\":[]"
	poweroff -f
}

failed() {
	say "failed: $1: $2"
	post failed "\"reason\":\"$1\",\"detail\":\"$2\""
}

partition() { # the partition of a disk with that name in its GPT
	for part in /sys/block/"$1"/"$1"*; do
		grep -q "^PARTNAME=$2$" "$part/uevent" && basename "$part"
	done
}

deploy() {
	disk=$(disks | head -n 1)
	[ -n "$disk" ] || { failed disk "there is no disk"; return; }
	[ "$OGAI_IMAGE_FORMAT" = raw.zst ] || { failed image "this machine takes raw.zst, not $OGAI_IMAGE_FORMAT"; return; }
	say "image to /dev/$disk"
	mkfifo /tmp/copy /tmp/count
	sha256sum </tmp/copy >/tmp/sum &
	wc -c </tmp/count >/tmp/bytes &
	# Hashed and written as it comes; a disk that got a wrong image is made unbootable below.
	wget -q -O - "$OGAI_IMAGE_URL" | tee /tmp/copy | tee /tmp/count | zstd -q -d -c 2>/tmp/zstd |
		dd of="/dev/$disk" bs=1M iflag=fullblock 2>/tmp/dd
	wait
	sum=$(cut -d ' ' -f 1 /tmp/sum)
	if [ "$sum" != "$OGAI_IMAGE_SHA256" ]; then
		dd if=/dev/zero of="/dev/$disk" bs=1M count=4 2>/dev/null
		sync
		failed digest "the image has the SHA-256 $sum, not $OGAI_IMAGE_SHA256"
		return
	fi
	if [ -s /tmp/zstd ] || ! blockdev --rereadpt "/dev/$disk"; then
		failed image "$(head -n 1 /tmp/zstd | tr -d '\"\\')"
		return
	fi
	part=$(partition "$disk" ogai-config)
	if [ -z "$part" ] || ! wget -q -O - "$BASE_URL/config.tar" | dd of="/dev/$part" bs=64k 2>/dev/null; then
		failed image "the image has no ogai-config partition for the node's own files"
		return
	fi
	sync
	say "deployed"
	post deployed "\"sha256\":\"$sum\",\"bytes\":$(cat /tmp/bytes)"
}

erase() { # overwritten, and read back: what counts is what can still be read
	bytes=0
	verified=true
	for disk in $(disks); do
		size=$(($(cat "/sys/block/$disk/size") * 512))
		dd if=/dev/zero of="/dev/$disk" bs=4M count="$size" iflag=count_bytes 2>/dev/null
		sync
		echo 3 >/proc/sys/vm/drop_caches
		left=$(tr -d '\0' <"/dev/$disk" | head -c 1 | wc -c)
		[ "$left" = 0 ] || verified=false
		bytes=$((bytes + size))
	done
	post erased "\"method\":\"overwrite\",\"bytes\":$bytes,\"verified\":$verified"
	poweroff -f
}

while :; do
	until timeout 10 wget -q -O /tmp/order "${BASE_URL}.sh"; do say "no order yet"; sleep 3; done
	. /tmp/order
	say "order: $OGAI_ACTION"
	case $OGAI_ACTION in
	inspect) inspect ;;
	erase) erase ;;
	local) reboot -f ;;
	deploy)
		deploy
		say "idle until the power is cut"
		while :; do sleep 1000; done
		;;
	*) sleep 5 ;;
	esac
done
