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

// httpPlugins are the plugins that answer HTTP, with the address of those whose line
// names none. They set SO_REUSEPORT, so that a reload may open a socket beside the
// one before; two of them on one address would each get a part of the requests.
var httpPlugins = []struct{ directive, address string }{
	{"ready", ":8181"},
	{"health", ":8080"},
	{"pprof", "localhost:6053"},
	{"prometheus", "localhost:9153"},
}

// listener is a line of the Corefile that opens an HTTP server.
type listener struct {
	directive string
	text      string // the address, as the line has it
	addr      *net.TCPAddr
	file      string
	line      int
}

func (l *listener) String() string { return fmt.Sprintf("%s:%d - %s", l.file, l.line, l.directive) }

// listenersOf finds the HTTP servers of the server blocks of a file.
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

// parse reads the lines of the directive in one server block. The last of several lines
// is the one that is reported, and the last address that is named the one that counts.
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

// CheckListeners refuses HTTP servers that would share an address, and those whose
// address this process can't have: *ready* and *prometheus* would go without.
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

// overlap reports whether a connection may be for either of two listeners.
func overlap(a, b *net.TCPAddr) bool {
	anyAddress := func(a *net.TCPAddr) bool { return len(a.IP) == 0 || a.IP.IsUnspecified() }
	return a.Port == b.Port && a.Port != 0 && (anyAddress(a) || anyAddress(b) || a.IP.Equal(b.IP) && a.Zone == b.Zone)
}

// CheckServers refuses server blocks whose sockets can't be had.
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

// trySocket returns an error if a server could not open its sockets.
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
	// A UDP socket beside one with SO_REUSEPORT would get some of its datagrams as soon
	// as it is bound, so UDP is not tried that way. Only processes of this user can share
	// the TCP port: one that does, and has the UDP port, is the puntdns that the Corefile
	// is for, or another one.
	if errors.Is(err, unix.EADDRINUSE) && (!overTCP || tryTCP(tcp, false) != nil) {
		return nil //nolint:nilerr // the address is in use by one that it can be shared with
	}
	return err
}

// tryTCP binds a socket to an address as Go does for a listener, with SO_REUSEPORT if
// it may share the address, and closes it. It does not listen, so it takes no
// connection from those who do.
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

// haveIPv6 reports whether there are IPv6 sockets: Go listens on both families by one
// where there are.
func haveIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}
