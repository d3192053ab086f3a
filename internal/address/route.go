// SPDX-License-Identifier: Apache-2.0

package address

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// isOwnRoute reports whether the route is local, broadcast, anycast or multicast (rtnetlink(7)): a packet
// stays on the node, or goes to several neighbors.
//
// The table "local" is not enough: rules may put such routes into any table, and some are for marked packets,
// as for a transparent proxy.
func isOwnRoute(a netip.Addr) (bool, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return false, fmt.Errorf("opening a netlink socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, routeRequest(a), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, fmt.Errorf("asking for a route: %w", err)
	}
	b := make([]byte, 4096) // one message with one route
	n, _, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return false, fmt.Errorf("reading a route: %w", err)
	}
	return parseRoute(b[:n])
}

// routeRequest returns nlmsghdr, rtmsg and one attribute (netlink(7), rtnetlink(7)).
func routeRequest(a netip.Addr) []byte {
	address := a.AsSlice()
	family := byte(unix.AF_INET)
	if a.Is6() {
		family = unix.AF_INET6
	}
	length := unix.SizeofNlMsghdr + unix.SizeofRtMsg + unix.SizeofRtAttr + len(address)
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, length), uint32(length))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_GETROUTE)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence number, port
	b = append(b, family, byte(a.BitLen()))
	b = append(b, make([]byte, unix.SizeofRtMsg-2)...)
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(address)))
	b = binary.NativeEndian.AppendUint16(b, unix.RTA_DST)
	return append(b, address...)
}

var errNoRoute = errors.New("expected a route or an error from the kernel")

func parseRoute(b []byte) (bool, error) {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil || len(messages) == 0 {
		return false, errors.Join(errNoRoute, err)
	}
	const typeAt = 7 // of the rtmsg
	switch m := messages[0]; {
	case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
		errno := unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
		switch errno {
		case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EINVAL, unix.EOPNOTSUPP, unix.EAFNOSUPPORT:
			// No route, unreachable, prohibit or blackhole, or no IPv6.
			return false, nil
		}
		return false, fmt.Errorf("the kernel's route: %w", errno)
	case m.Header.Type == unix.RTM_NEWROUTE && len(m.Data) > typeAt:
		switch m.Data[typeAt] {
		case unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST, unix.RTN_MULTICAST:
			return true, nil
		}
		return false, nil
	}
	return false, errNoRoute
}
