// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// mailbox receives datagrams in a guest.
type mailbox struct {
	conn net.PacketConn
}

func listen(t *testing.T, g *lab.Guest, addr string) mailbox {
	t.Helper()
	conn, err := g.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return mailbox{conn}
}

// next waits for a datagram.
func (m mailbox) next(t *testing.T) string {
	t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, _, err := m.conn.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func send(t *testing.T, g *lab.Guest, addr, text string) {
	t.Helper()
	conn, err := g.Dial(context.Background(), "udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func TestTenants(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	red11, red12 := tenant(l, "red")
	blue11, blue12 := tenant(l, "blue")
	blue13 := guest(l.Node, "blue", 13)
	l.AddDNS(map[string]string{"db.internal": "10.0.0.12 fd00:10::12"}, "red")
	l.AddDNS(map[string]string{"db.internal": "10.0.0.13"}, "blue")
	l.Sync()

	t.Run("inside a tenant only", func(t *testing.T) {
		for _, addr := range []string{"10.0.0.12:7", "[fd00:10::12]:7"} {
			red, blue := listen(t, red12, addr), listen(t, blue12, addr)
			send(t, red11, addr, "from red")
			if got := red.next(t); got != "from red" {
				t.Errorf("%s of red got %q", addr, got)
			}
			// Were red's datagram here, it would come before this one.
			send(t, blue11, addr, "from blue")
			if got := blue.next(t); got != "from blue" {
				t.Errorf("%s of blue got %q", addr, got)
			}
		}
	})
	t.Run("an address that red has not", func(t *testing.T) {
		const addr = "10.0.0.13:7"
		blue := listen(t, blue13, addr)
		send(t, red11, addr, "from red")
		send(t, blue11, addr, "from blue")
		if got := blue.next(t); got != "from blue" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("port security", func(t *testing.T) {
		if _, err := red11.Exec(within(t, wait), "ip", "addr", "add", "10.0.0.99/24", "dev", lab.Iface); err != nil {
			t.Fatal(err)
		}
		const addr = "10.0.0.12:8"
		red := listen(t, red12, addr)
		forged, err := red11.ListenPacket("udp", "10.0.0.99:8")
		if err != nil {
			t.Fatal(err)
		}
		defer forged.Close()
		if _, err := forged.WriteTo([]byte("forged"), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 12), Port: 8}); err != nil {
			t.Fatal(err)
		}
		send(t, red11, addr, "honest")
		if got := red.next(t); got != "honest" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("OVN's own DNS", func(t *testing.T) {
		for _, tc := range []struct {
			guest  *lab.Guest
			server string
			want   string
		}{
			{red11, "10.0.0.12", "NOERROR 10.0.0.12"},
			{blue11, "10.0.0.12", "NOERROR 10.0.0.13"},
			{red11, "fd00:10::12", "NOERROR 10.0.0.12"},
			{red11, "169.254.169.254", "NOERROR 10.0.0.12"},
			{blue11, "fd00::254", "NOERROR 10.0.0.13"},
		} {
			r := tc.guest.Dig("+noedns", "@"+tc.server, "db.internal")
			if r.String() != tc.want {
				t.Errorf("%s asks %s: %s, want %s\n%s", tc.guest.Name, tc.server, r, tc.want, r.Out)
			}
		}
	})
}

func TestRouter(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	l.AddSwitch("left")
	l.AddSwitch("right")
	l.AddRouter("r",
		lab.RouterPort{Switch: "left", MAC: "02:00:00:00:01:01", Networks: []string{"10.0.1.1/24", "fd00:1::1/64"}},
		lab.RouterPort{Switch: "right", MAC: "02:00:00:00:01:02", Networks: []string{"10.0.2.1/24", "fd00:2::1/64"}})
	left := l.Node.AddGuest(lab.Guest{
		Name: "left-vm", Switch: "left", MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.1.11/24", "fd00:1::11/64"),
		Gateway4: lab.Addr("10.0.1.1"), Gateway6: lab.Addr("fd00:1::1"),
	})
	right := l.Node.AddGuest(lab.Guest{
		Name: "a-guest-with-a-long-name", Switch: "right", MAC: "02:00:00:00:00:12", Addrs: lab.Prefixes("10.0.2.12/24", "fd00:2::12/64"),
		Gateway4: lab.Addr("10.0.2.1"), Routes: []string{"fd00:1::/64 via fd00:2::1"},
	})
	l.Sync()
	for _, addr := range []string{"10.0.2.12:7", "[fd00:2::12]:7"} {
		box := listen(t, right, addr)
		send(t, left, addr, "routed")
		if got := box.next(t); got != "routed" {
			t.Errorf("%s: got %q", addr, got)
		}
	}
}

func TestLocalport(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Nodes: 2})
	l.AddSwitch("red")
	for _, n := range l.Nodes {
		local := n.AddGuest(lab.Guest{
			Name: "metadata-" + n.Name, Switch: "red", Port: "metadata", MAC: "02:00:00:00:00:02",
			Addrs: lab.Prefixes("169.254.169.254/16"), Settings: []string{"type=localport"},
		})
		if _, err := local.Exec(within(t, wait), "ip", "route", "add", "10.0.0.0/24", "dev", lab.Iface); err != nil {
			t.Fatal(err)
		}
		vm := n.AddGuest(lab.Guest{
			Name: "vm-" + n.Name, Switch: "red", MAC: "02:00:00:00:00:1" + n.Name[4:], Addrs: lab.Prefixes("10.0.0.1" + n.Name[4:] + "/24"),
			Routes: []string{"169.254.169.254 dev " + lab.Iface},
		})
		box := listen(t, local, "169.254.169.254:7")
		send(t, vm, "169.254.169.254:7", n.Name)
		if got := box.next(t); got != n.Name {
			t.Errorf("the localport of %s got %q", n.Name, got)
		}
	}
}

func TestGuestRemove(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	l.AddSwitch("red")
	l.NBCTL("lsp-add", "red", "mine", "--", "lsp-set-addresses", "mine", "02:00:00:00:00:11 10.0.0.11")
	for range 2 {
		vm := l.Node.AddGuest(lab.Guest{Name: "vm", Switch: "red", Port: "mine", MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.0.11/24")})
		guest := guest(l.Node, "red", 12)
		vm.ServeDNS("10.0.0.11:53", "a.test. 1 IN A 192.0.2.1")
		p := vm.Start("sleep", nil, "sleep", "1000")
		vm.Remove()
		guest.Remove()
		if err := p.Wait(within(t, wait)); err == nil {
			t.Error("the guest's process was not ended")
		}
		if got := l.Node.VSCTL("list-ports", lab.Bridge); got != "" {
			t.Errorf("ports left on the bridge: %q", got)
		}
		// The port that was there before stays.
		if got := l.NBCTL("--bare", "--columns=name", "list", "Logical_Switch_Port"); got != "mine" {
			t.Errorf("logical ports left: %q", got)
		}
	}
}

func TestSideBySide(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, lab.Options{TCP: true})
			vm11, vm12 := tenant(l, "red")
			l.AddDNS(map[string]string{"who.internal": "10.0.0.11"}, "red")
			l.Sync()
			box := listen(t, vm12, "10.0.0.12:7")
			send(t, vm11, "10.0.0.12:7", name)
			if got := box.next(t); got != name {
				t.Errorf("got %q", got)
			}
			if got := l.NBCTL("--bare", "--columns=name", "list", "Logical_Switch"); got != "red" {
				t.Errorf("switches: %q", got)
			}
			for db, endpoint := range map[string]string{"OVN_Northbound": l.NBTCP, "OVN_Southbound": l.SBTCP, "Open_vSwitch": l.Node.OVSDBTCP} {
				got, err := l.Node.Exec(within(t, wait), "ovsdb-client", "list-dbs", endpoint)
				if err != nil || !strings.Contains(got, db) {
					t.Errorf("%s: %q, %v; want %s", endpoint, got, err, db)
				}
			}
		})
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Nodes: 3})
	l.AddSwitch("red")
	var vms []*lab.Guest
	for i, n := range l.Nodes {
		vms = append(vms, guest(n, "red", 11+i))
	}
	l.Sync()
	box := listen(t, vms[2], "10.0.0.13:7")
	for _, vm := range vms[:2] {
		// The first packets wait for the tunnel's neighbour and may be lost.
		l.Eventually(vm.Name+" reaches the third node", func() error {
			send(t, vm, "10.0.0.13:7", vm.Name)
			if err := box.conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				return err
			}
			buf := make([]byte, 100)
			for {
				n, _, err := box.conn.ReadFrom(buf)
				if err != nil {
					return err
				}
				if string(buf[:n]) == vm.Name {
					return nil
				}
			}
		})
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Plain: true})
	l.AddSwitch("red")
	a := l.Node.AddGuest(lab.Guest{Name: "a", MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.0.11/24")})
	b := l.Node.AddGuest(lab.Guest{Name: "b", Switch: "red", Port: "port-b", MAC: "02:00:00:00:00:12", Addrs: lab.Prefixes("10.0.0.12/24")})
	box := listen(t, b, "10.0.0.12:7")
	send(t, a, "10.0.0.12:7", "learned")
	if got := box.next(t); got != "learned" {
		t.Errorf("got %q", got)
	}
	if got := l.Node.VSCTL("get", "Interface", b.NodePort, "external_ids:iface-id"); got != "port-b" {
		t.Errorf("iface-id %q", got)
	}
	if a.OFPort == b.OFPort || a.OFPort <= 0 {
		t.Errorf("OpenFlow ports %d and %d", a.OFPort, b.OFPort)
	}
	if _, err := os.Stat(strings.TrimPrefix(l.Node.OpenFlow, "unix:")); err != nil {
		t.Error(err)
	}
	if _, err := a.Exec(within(t, wait), "false"); err == nil {
		t.Error("a command that fails gives no error")
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	if _, err := a.Exec(ctx, "sleep", "1000"); !errors.Is(err, context.Canceled) {
		t.Errorf("a command whose context has ended: %v", err)
	}
}
