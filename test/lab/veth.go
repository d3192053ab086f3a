// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vethPair creates a pair of interfaces between two namespaces and brings a's
// end up. The userspace datapath takes frames as they are, with checksums that
// a card would fill in, so both ends compute them. With the kernel's they send as
// to a card, which segments and computes checksums for them.
func vethPair(a *Host, aName string, b *Host, bName, bMAC string) error {
	peer := "peer name " + bName
	if bMAC != "" {
		peer += " address " + bMAC
	}
	err := a.ip(
		"link add name "+aName+" type veth "+peer+" netns "+b.NetNS(),
		"link set dev "+aName+" up")
	if err != nil {
		return err
	}
	if a.l.Datapath == Kernel {
		return nil
	}
	for h, name := range map[*Host]string{a: aName, b: bName} {
		if err := h.Do(func() error { return checksumOffloadOff(name) }); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	return nil
}

// ethtoolValue is struct ethtool_value of linux/ethtool.h.
type ethtoolValue struct {
	cmd, data uint32
}

// ifreqData is struct ifreq of linux/if.h with a pointer in its union.
type ifreqData struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// checksumOffloadOff is ethtool -K NAME tx off, without ethtool.
func checksumOffloadOff(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	value := ethtoolValue{cmd: unix.ETHTOOL_STXCSUM}
	req := ifreqData{data: unsafe.Pointer(&value)}
	copy(req.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return fmt.Errorf("checksum offload of %s: %w", name, errno)
	}
	return nil
}
