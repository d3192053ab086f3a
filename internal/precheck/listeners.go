// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"errors"
	"fmt"
	"net"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin/pkg/parse"
	"github.com/coredns/coredns/plugin/pkg/transport"
	"golang.org/x/sys/unix"
)

// httpPlugins have a default address. They set SO_REUSEPORT for reloads; two on one address would share its
// requests.
var httpPlugins = []struct{ directive, address string }{
	{"ready", ":8181"},
	{"health", ":8080"},
	{"pprof", "localhost:6053"},
	{"prometheus", "localhost:9153"},
}

type listener struct {
	directive string
	text      string // the address, as the line has it
	addr      *net.TCPAddr
	file      string
	line      int
}

func (l *listener) String() string { return fmt.Sprintf("%s:%d - %s", l.file, l.line, l.directive) }

func listenersOf(file string, blocks []caddyfile.ServerBlock) (all []listener, err error) {
	for _, b := range blocks {
		for _, p := range httpPlugins {
			tokens := b.Tokens[p.directive]
			if len(tokens) == 0 {
				continue
			}
			l := listener{directive: p.directive, text: p.address}
			l.parse(caddyfile.NewDispenserTokens(file, tokens))
			if _, _, err := net.SplitHostPort(l.text); err != nil {
				continue // the plugin says it
			}
			if l.addr, err = net.ResolveTCPAddr("tcp", l.text); err != nil {
				return nil, fmt.Errorf("%s: %q: %w; expected [HOST]:PORT", &l, l.text, err)
			}
			all = append(all, l)
		}
	}
	return all, nil
}

// parse takes the last address, and reports the last of several lines.
func (l *listener) parse(d caddyfile.Dispenser) {
	for d.Next() {
		l.file, l.line = d.File(), d.Line()
		if args := d.RemainingArgs(); len(args) > 0 {
			l.text = args[0]
		}
		for d.NextBlock() {
			d.RemainingArgs()
		}
	}
}

// CheckListeners refuses HTTP servers that share an address or can't have theirs: *ready* and *prometheus*
// would start without.
func CheckListeners(file string, blocks []caddyfile.ServerBlock) error {
	all, err := listenersOf(file, blocks)
	if err != nil {
		return err
	}
	for i := range all {
		l := &all[i]
		for j := range i {
			if o := &all[j]; o.directive != l.directive && overlap(o.addr, l.addr) {
				return fmt.Errorf("%s: %q is the address of %s at %s:%d already (%q), expected another one", l, l.text, o.directive, o.file, o.line, o.text)
			}
		}
	}
	for i := range all {
		l := &all[i]
		if err := tryTCP(l.addr, true); err != nil {
			return fmt.Errorf("%s: %q: %w; expected an address that this process can listen on", l, l.text, err)
		}
	}
	return nil
}

// overlap reports whether a connection may be for either.
func overlap(a, b *net.TCPAddr) bool {
	anyAddress := func(a *net.TCPAddr) bool { return len(a.IP) == 0 || a.IP.IsUnspecified() }
	return a.Port == b.Port && a.Port != 0 && (anyAddress(a) || anyAddress(b) || a.IP.Equal(b.IP) && a.Zone == b.Zone)
}

// CheckServers refuses blocks whose sockets can't be opened.
func CheckServers(servers []caddy.Server) error {
	for _, s := range servers {
		g, ok := s.(caddy.GracefulServer)
		if !ok {
			continue
		}
		kind, address := parse.Transport(g.Address())
		if err := trySocket(kind, address); err != nil {
			return fmt.Errorf("%s: %w; expected an address that this process can listen on", g.Address(), err)
		}
	}
	return nil
}

func trySocket(kind, address string) error {
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return err
	}
	overTCP := kind != transport.QUIC && kind != transport.HTTPS3
	if overTCP {
		if err := tryTCP(tcp, true); err != nil {
			return err
		}
	}
	if overTCP && kind != transport.DNS {
		return nil
	}
	udp, err := net.ListenPacket("udp", address)
	if err == nil {
		return udp.Close()
	}
	// A UDP socket with SO_REUSEPORT gets datagrams once bound, so UDP is not tried with it. Only processes
	// of this user share the TCP port: a process that also has the UDP port is this or another puntdns.
	if errors.Is(err, unix.EADDRINUSE) && (!overTCP || tryTCP(tcp, false) != nil) {
		return nil //nolint:nilerr // the address can be shared with its user
	}
	return err
}

// tryTCP binds as Go does for a listener, with SO_REUSEPORT if it may share, and closes. It does not listen,
// so it takes no connections.
func tryTCP(a *net.TCPAddr, share bool) error {
	family, sa := unix.AF_INET6, unix.Sockaddr(nil)
	switch ip4 := a.IP.To4(); {
	case ip4 != nil:
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(ip4)}
	case len(a.IP) == 0 && !haveIPv6():
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: a.Port}
	default:
		sa6 := &unix.SockaddrInet6{Port: a.Port}
		copy(sa6.Addr[:], a.IP)
		if a.Zone != "" {
			i, err := net.InterfaceByName(a.Zone)
			if err != nil {
				return err
			}
			sa6.ZoneId = uint32(i.Index)
		}
		sa = sa6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	options := [][3]int{{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1}}
	if share {
		options = append(options, [3]int{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1})
	}
	if family == unix.AF_INET6 {
		only6 := 1
		if len(a.IP) == 0 {
			only6 = 0
		}
		options = append(options, [3]int{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only6})
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o[0], o[1], o[2]); err != nil {
			return err
		}
	}
	if err := unix.Bind(fd, sa); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// haveIPv6 reports whether Go listens on both families by one socket.
func haveIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}
