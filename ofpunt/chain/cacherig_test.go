// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// cacheRig is a compiled Corefile without a switch.
type cacheRig struct {
	*Server
	// upstream answers at the end of the chain; nil refuses.
	upstream func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error)
}

// startCache starts a Corefile. $OFPUNT is the directive up to its properties, $CLOSE its end.
func startCache(t testing.TB, text string) *cacheRig {
	t.Helper()
	dir := t.TempDir()
	text = strings.NewReplacer("$OFPUNT", "ofpunt br-cache {\n openflow unix:"+filepath.Join(dir, "mgmt")+"\n ovsdb unix:"+filepath.Join(dir, "ovs")+"\n placement table 0", "$CLOSE", "}").Replace(text)
	starting = text
	in, err := caddy.Start(caddy.CaddyfileInput{Filepath: "Corefile", ServerTypeName: "dns", Contents: []byte(text)})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	t.Cleanup(func() {
		in.ShutdownCallbacks()
		_ = in.Stop()
	})
	rig := &cacheRig{}
	blocks := *in.Storage[blocksKey{}].(*[]*Block)
	for _, b := range blocks {
		b.config().AddPlugin(as{name: "end", serve: func(ctx context.Context, _ plugin.Handler, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			if rig.upstream == nil {
				return dns.RcodeRefused, nil
			}
			return rig.upstream(ctx, w, r)
		}}.plugin())
	}
	if rig.Server, err = Compile(blocks); err != nil {
		t.Fatal(err)
	}
	return rig
}

// asker is a client at a socket if origin is nil.
type asker struct {
	origin *origin.Origin
	addr   string
	port   int
	tcp    bool
}

// Each pair of numbers is another guest.
func guest(network, port byte, addr string) asker {
	n := func(s string, b byte) string { return s + string('a'+rune(b)) }
	return asker{
		origin: &origin.Origin{
			Bridge: "br-cache", InPort: uint32(network)<<8 | uint32(port), Network: origin.Network{15: network + 1}, Switch: n("switch-", network),
			Port: n("switch-", network) + n("-vm-", port), Attributes: attributes{"id k": n("k-", network), "router": n("r-", network)},
			Destination: netip.MustParseAddrPort("169.254.169.254:53"),
		},
		addr: addr, port: 40000,
	}
}

type askerWriter struct {
	recorder
	asker
}

// outcome writes a second message for log.
func (w *askerWriter) WriteMsg(m *dns.Msg) error {
	if w.msg == nil {
		w.msg = m
	}
	return nil
}

func (w *askerWriter) RemoteAddr() net.Addr {
	if w.tcp {
		return &net.TCPAddr{IP: net.ParseIP(w.addr), Port: w.port}
	}
	return &net.UDPAddr{IP: net.ParseIP(w.addr), Port: w.port}
}

func (w *askerWriter) LocalAddr() net.Addr {
	a := net.UDPAddr{IP: net.IPv4(169, 254, 169, 254), Port: 53}
	if w.tcp {
		return &net.TCPAddr{IP: a.IP, Port: a.Port}
	}
	return &a
}

func (rig *cacheRig) ask(who asker, r *dns.Msg) *dns.Msg {
	w := &askerWriter{asker: who}
	if who.origin == nil {
		rig.dns.ServeDNS(context.WithValue(context.Background(), dnsserver.Key{}, rig.dns), w, r)
		return w.msg
	}
	x := &punt.Exchange{}
	*x.Request() = *r
	rig.dns.ServeDNS(puntContext(rig.dns, x, who.origin), w, x.Request())
	return w.msg
}

func (rig *cacheRig) lookup(who asker, qname string, qtype uint16) string {
	return short(rig.ask(who, new(dns.Msg).SetQuestion(qname, qtype)))
}

func short(m *dns.Msg) string {
	if m == nil {
		return "no answer"
	}
	words := append([]string{dns.RcodeToString[m.Rcode]}, testkit.Data(m.Answer)...)
	return strings.ReplaceAll(strings.Join(words, " "), `"`, "")
}
