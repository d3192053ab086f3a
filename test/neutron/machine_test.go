// SPDX-License-Identifier: Apache-2.0

//go:build neutron

package neutron

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// The resolver addresses, where guests send their queries.
const resolver4, resolver6 = "169.254.169.254", "fd00::254"

// machine is a guest with a port of Neutron's.
type machine struct {
	*lab.Guest
	t    *testing.T
	port object
	// told is what the DHCP server has told, by the names of udhcpc; resolv is the
	// resolv.conf that follows from it.
	told   map[string]string
	told6  map[string]string // by DHCPv6
	resolv string
}

// boot creates a port on a network, with further fields if there are any, and starts a
// guest with it. It waits until Neutron says that the port is active.
func (c *cloud) boot(t *testing.T, network object, name string, fields object) *machine {
	t.Helper()
	all := object{
		"network_id": network.id(), "project_id": network.text("project_id"), "name": name, "dns_name": name,
		"device_owner": "compute:nova", "device_id": fmt.Sprintf("00000000-0000-4000-8000-%012d", c.plugged+1), "binding:host_id": host,
	}
	for k, v := range fields {
		all[k] = v
	}
	return c.plug(t, c.create(t, "port", all))
}

// plug starts the guest of a port, as Nova does, and waits until the port is active.
func (c *cloud) plug(t *testing.T, port object) *machine {
	t.Helper()
	c.plugged++
	g := c.node.AddGuest(lab.Guest{Name: "tap" + port.id()[:11], Port: port.id(), MAC: port.text("mac_address")})
	c.node.VSCTL("set", "Interface", g.NodePort, "external_ids:iface-status=active", "external_ids:vm-uuid="+port.text("device_id"))
	m := &machine{Guest: g, t: t, port: port}
	c.active(t, port)
	return m
}

// unplug ends a guest and deletes its port, and its trunk if it has one.
func (c *cloud) unplug(t *testing.T, m *machine) {
	t.Helper()
	m.Remove()
	trunks, err := c.list(within(t, wait), "trunk", map[string][]string{"port_id": {m.port.id()}})
	if err != nil {
		t.Fatal(err)
	}
	for _, trunk := range trunks {
		c.remove(t, "trunk", trunk)
	}
	c.remove(t, "port", m.port)
}

// active waits until Neutron says that a port is.
func (c *cloud) active(t *testing.T, port object) {
	t.Helper()
	until(t, patience, "port "+port.text("name"), func() error {
		if status := c.show(t, "port", port.id()).text("status"); status != "ACTIVE" {
			return errors.New(status)
		}
		return nil
	})
}

// leaseScript is what udhcpc runs at each step. It gives the interface what the lease says:
// with classless routes the router does not count (RFC 3442). It writes down the lease and a
// resolv.conf.
const leaseScript = `#!/bin/sh
set -e
[ "$1" = bound ] || exit 0
if [ -n "$ipv6" ]; then
	ip addr add "$ipv6/64" dev "$interface" nodad
	env >FILE
	exit
fi
ip addr add "$ip/$mask" dev "$interface"
[ -z "$mtu" ] || ip link set dev "$interface" mtu "$mtu"
route() {
	if [ "$2" = 0.0.0.0 ]; then ip route add "$1" dev "$interface"; else ip route add "$1" via "$2"; fi
}
if [ -n "$staticroutes" ]; then
	set -- $staticroutes
	while [ $# -gt 1 ]; do route "$1" "$2"; shift 2; done
elif [ -n "$router" ]; then
	route default "${router%% *}"
fi
for s in $dns; do echo "nameserver $s"; done >FILE.resolv
[ -z "$domain" ] || echo "search $domain" >>FILE.resolv
env >FILE.part
mv FILE.part FILE
`

// lease runs a DHCP client in the guest.
func (m *machine) lease(c *cloud) *machine {
	m.t.Helper()
	file := filepath.Join(c.etc, m.Name+".lease")
	m.told = m.client(c, file, "udhcpc", "-O", "staticroutes", "-O", "mtu")
	m.resolv = file + ".resolv"
	return m
}

// lease6 is lease with DHCPv6. What it tells of DNS servers goes nowhere.
func (m *machine) lease6(c *cloud) *machine {
	m.t.Helper()
	m.told6 = m.client(c, filepath.Join(c.etc, m.Name+".lease6"), "udhcpc6", "-O", "dns")
	return m
}

// client runs a DHCP client until it has a lease and returns what the client tells of it.
func (m *machine) client(c *cloud, file, program string, args ...string) map[string]string {
	m.t.Helper()
	script := c.write(m.t, filepath.Base(file)+".script", strings.ReplaceAll(leaseScript, "FILE", file))
	if err := os.Chmod(script, 0o755); err != nil {
		m.t.Fatal(err)
	}
	argv := append([]string{"busybox", program, "-i", lab.Iface, "-f", "-q", "-n", "-t", "240", "-T", "1", "-s", script}, args...)
	if _, err := m.Exec(within(m.t, patience), argv...); err != nil {
		m.t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	told := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		told[name] = value
	}
	return told
}

// ip runs ip(8) in the guest.
func (m *machine) ip(args string) {
	m.t.Helper()
	if _, err := m.Exec(within(m.t, wait), append([]string{"ip"}, strings.Fields(args)...)...); err != nil {
		m.t.Fatal(err)
	}
}

// address6 is the IPv6 address of the guest's port.
func (m *machine) address6() string { return address(m.port, true) }

// address4 is the IPv4 address.
func (m *machine) address4() string { return address(m.port, false) }

// address is the first address of a port of one family.
func address(port object, six bool) string {
	for _, a := range port.addresses() {
		if strings.Contains(a, ":") == six {
			return a
		}
	}
	return ""
}

// autoconfigure has the guest take what a router advertises.
func (m *machine) autoconfigure() *machine {
	m.t.Helper()
	err := m.Do(func() error {
		// /proc/sys shows the reader's namespace.
		return errors.Join(
			os.WriteFile("/proc/sys/net/ipv6/conf/"+lab.Iface+"/accept_ra", []byte("2"), 0o644),
			os.WriteFile("/proc/sys/net/ipv6/conf/"+lab.Iface+"/router_solicitations", []byte("-1"), 0o644))
	})
	if err != nil {
		m.t.Fatal(err)
	}
	// It solicits when the interface comes up.
	m.ip("link set dev " + lab.Iface + " down")
	m.ip("link set dev " + lab.Iface + " up")
	until(m.t, wait, "an address by router advertisement", func() error {
		out, err := m.Exec(within(m.t, wait), "ip", "-6", "addr", "show", "dev", lab.Iface, "scope", "global", "-tentative")
		if err == nil && !strings.Contains(out, m.address6()+"/") {
			err = fmt.Errorf("%q, want %s", out, m.address6())
		}
		return err
	})
	return m
}

// getent asks the guest's C library, whose resolv.conf is what DHCP has told.
func (m *machine) getent(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.Exec(within(t, wait), append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-ec",
		`mount --bind "$0" /etc/resolv.conf; exec getent -s dns "$@"`, m.resolv}, args...)...)
	if err != nil {
		return err.Error()
	}
	return out
}

// nova answers what the metadata agents pass on with the instance that asks.
func (c *cloud) nova(t *testing.T) {
	t.Helper()
	ln, err := c.node.Listen("tcp", "127.0.0.1:8775")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Instance-ID"))
	}))
}

// metadata checks that the metadata service knows the guest.
func (m *machine) metadata(t *testing.T) {
	t.Helper()
	until(t, wait, "metadata of "+m.port.text("name"), func() error {
		status, body, err := m.HTTPGet(within(t, wait), "http://169.254.169.254/latest/meta-data/instance-id")
		if err == nil && (status != http.StatusOK || body != m.port.text("device_id")) {
			err = fmt.Errorf("%d %q, want %s", status, body, m.port.text("device_id"))
		}
		return err
	})
}

// ask is a query and its short answer.
type ask struct{ args, want string }

// asks checks answers over both families and UDP and TCP. A query is tried again for some
// time: what Neutron writes passes through the databases.
func (m *machine) asks(t *testing.T, asks ...ask) {
	t.Helper()
	for _, a := range asks {
		for _, how := range []string{"@" + resolver4, "@" + resolver6, "@" + resolver4 + " +tcp", "@" + resolver6 + " +tcp"} {
			m.asksBy(t, how, a)
		}
	}
}

// asksBy is asks with the arguments of dig that say by which way.
func (m *machine) asksBy(t *testing.T, how string, a ask) {
	t.Helper()
	until(t, wait, fmt.Sprintf("%s asks %s %s", m.port.text("name"), how, a.args), func() error {
		if got := m.Dig(append(strings.Fields(how), strings.Fields(a.args)...)...); got.String() != a.want {
			return fmt.Errorf("got %s, want %s", got, a.want)
		}
		return nil
	})
}

// gets checks that a query is answered, or that it is not.
func (m *machine) gets(t *testing.T, how string, a ask, answered bool) {
	t.Helper()
	if answered {
		m.asksBy(t, how, a)
		return
	}
	// What Neutron has been told takes a moment.
	until(t, wait, fmt.Sprintf("%s asks %s %s", m.port.text("name"), how, a.args), func() error {
		if got := m.Dig(append(strings.Fields("+time=1 "+how), strings.Fields(a.args)...)...); got.Err == nil {
			return fmt.Errorf("got %s, want no answer", got)
		}
		return nil
	})
}

// load asks for a name of the guest's network with hardly a pause, over both families, until
// stop is called. Each query is asked once.
func (m *machine) load(name, want string) (stop func() (asked int, wrong []string)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	asked, wrong := 0, []string(nil)
	for _, resolver := range []string{resolver4, resolver6} {
		wg.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
				one, end := context.WithTimeout(context.Background(), 5*time.Second)
				r, _, err := m.Exchange(one, new(dns.Msg).SetQuestion(name, dns.TypeA), net.JoinHostPort(resolver, "53"))
				end()
				got := fmt.Sprint(err)
				if err == nil {
					got = inShort(r)
				}
				mu.Lock()
				asked++
				if got != want {
					wrong = append(wrong, time.Now().Format("15:04:05.000 ")+got)
				}
				mu.Unlock()
			}
		})
	}
	return func() (int, []string) {
		cancel()
		wg.Wait()
		return asked, wrong
	}
}

// inShort is the status and the data of an answer.
func inShort(r *dns.Msg) string {
	words := []string{dns.RcodeToString[r.Rcode]}
	for _, rr := range r.Answer {
		words = append(words, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return strings.Join(words, " ")
}

// undisturbed runs f under load and checks that no more than so many queries were lost.
func (m *machine) undisturbed(t *testing.T, name, want string, allowed int, f func()) {
	t.Helper()
	stop := m.load(name, want)
	defer stop() // f may end the test
	f()
	asked, wrong := stop()
	tell("            %d of %d queries were lost", len(wrong), asked)
	if asked < 10 || len(wrong) > allowed {
		t.Errorf("%d of %d queries: %s", len(wrong), asked, strings.Join(wrong, "\n"))
	}
}

// server is a running puntdns.
type server struct{ *lab.Process }

// pageUpstreams are the resolvers in the Corefiles of the page.
const pageUpstreams = "9.9.9.9 149.112.112.112"

// serve starts puntdns with a Corefile of the page, but for its resolvers, and waits until it is
// ready.
func (c *cloud) serve(t *testing.T, key string) server {
	t.Helper()
	corefile := c.page.block(t, key)
	if !strings.Contains(corefile, pageUpstreams) {
		t.Fatalf("%s: expected the resolvers %s", key, pageUpstreams)
	}
	path := c.write(t, "Corefile", strings.Replace(corefile, pageUpstreams, c.upstream.Addr, 1))
	s := server{c.node.Start("puntdns", []string{"GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=100"}, puntdns, "-conf", path)}
	c.procs["puntdns"] = s.Process
	if err := s.WaitLog(within(t, wait), "flows are in place|no guest"); err != nil {
		t.Fatal(err)
	}
	c.ready(t)
	return s
}

// ready waits until *ready* says yes.
func (c *cloud) ready(t *testing.T) {
	t.Helper()
	if err := c.node.WaitHTTP(within(t, wait), "http://127.0.0.1:8181/ready", 200); err != nil {
		t.Fatalf("ready: %v\n%s", err, c.procs["puntdns"].Log())
	}
}

// guests waits until so many are served.
func (c *cloud) guests(t *testing.T, want int) {
	t.Helper()
	re := regexp.MustCompile(`(?m)^coredns_ofpunt_guests\{bridge="br-int"\} (\d+)$`)
	until(t, wait, "guests that are served", func() error {
		_, text, err := c.node.HTTPGet(within(t, wait), "http://127.0.0.1:9153/metrics")
		if err != nil {
			return err
		}
		if m := re.FindStringSubmatch(text); m == nil || m[1] != fmt.Sprint(want) {
			return fmt.Errorf("%q, want %d", m, want)
		}
		return nil
	})
	c.ready(t)
}

// end stops puntdns, which takes its flows with it.
func (c *cloud) end(t *testing.T) {
	t.Helper()
	p := c.procs["puntdns"]
	if err := p.Stop(); err != nil {
		t.Errorf("puntdns: %v\n%s", err, p.Log())
	}
	out := c.exec(t, "ovs-ofctl", "-O", c.openflow, "dump-flows", lab.Bridge, "cookie=0x70646e0000000000/0xffffff0000000000")
	if strings.Contains(out, "cookie=") {
		t.Errorf("flows left:\n%s", out)
	}
	for _, bad := range []string{"panic", "DATA RACE"} {
		if strings.Contains(p.Log(), bad) {
			t.Errorf("%s:\n%s", bad, p.Log())
		}
	}
}
