// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

const (
	warmCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        rate off
        control unix:SOCKET
    }
    errors
    ready ` + readyAddr + ` {
        monitor continuously
    }
    prometheus ` + metricsAddr + `
    ovnhosts {
        DATABASES
        snapshot SAVED
    }
}
`
	fromSaved = "coredns_ovnhosts_snapshot_saved"
)

// warmStart is two tenants and a puntdns that keeps what it reads in a folder.
type warmStart struct {
	*controlled
	northbound *lab.Gate
	// databases are those that puntdns reads, by their names.
	databases    []string
	folder, text string
}

// newWarmStart starts a puntdns that reads Southbound, and Northbound too if both is set.
func newWarmStart(t *testing.T, n overlap, both bool) *warmStart {
	t.Helper()
	socket := filepath.Join(n.Dir, "control.sock")
	gate := func(name string) *lab.Gate { return n.Gate("unix:" + filepath.Join(n.Dir, name)) }
	c := &controlled{overlap: n, operator: &operator{t, n.Lab, socket}, southbound: gate("sbgate.sock")}
	w := &warmStart{controlled: c, northbound: gate("nbgate.sock"), databases: []string{"OVN_Southbound"}, folder: filepath.Join(n.Dir, "saved")}
	w.open()
	properties := "southbound " + c.southbound.Endpoint
	if both {
		w.databases = append(w.databases, "OVN_Northbound")
		properties += "\n        northbound " + w.northbound.Endpoint
	}
	if err := os.Mkdir(w.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	w.text = replaceAll(warmCorefile, "SOCKET", socket, "SAVED", w.folder, "DATABASES", properties)
	w.server = serve(t, n.Lab, w.text)
	return w
}

// open opens the way to the databases.
func (w *warmStart) open() {
	w.southbound.Open(w.SB)
	w.northbound.Open(w.NB)
}

// close closes it.
func (w *warmStart) close() {
	w.southbound.Close()
	w.northbound.Close()
}

// file returns the path of the file, and when it was written.
func (w *warmStart) file() (path string, written time.Time, err error) {
	all, err := filepath.Glob(filepath.Join(w.folder, "ovn-????????????????"))
	if err != nil || len(all) != 1 {
		return "", written, fmt.Errorf("files %q, %w", all, err)
	}
	info, err := os.Stat(all[0])
	if err != nil {
		return "", written, err
	}
	return all[0], info.ModTime(), nil
}

// restart starts puntdns again, and returns when.
func (w *warmStart) restart(t *testing.T) (begun time.Time) {
	t.Helper()
	begun = time.Now()
	w.server = start(t, w.Lab, w.text)
	return begun
}

// isTold asks once, for what a guest is told within a moment. OVN's own DNS, which answers what is
// not punted, is told by its TTL.
func isTold(g *lab.Guest, resolver, name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	r, err := exchange(ctx, g, resolver, name, dns.TypeA)
	if err != nil {
		return "none"
	}
	return withTTL(r)
}

// comesTo asks until the guest is told that.
func (w *warmStart) comesTo(g *lab.Guest, name, want string) {
	w.server.t.Helper()
	for i, resolver := range resolvers {
		w.Eventually(fmt.Sprintf("%s is told of %s by %s", g.Name, name, resolvers[i]), func() error {
			if got := isTold(g, resolver, name); got != want {
				return fmt.Errorf("%s, want %s", got, want)
			}
			return nil
		})
	}
}

// isSaved checks that puntdns tells that its answers are from the file.
func (w *warmStart) isSaved(t *testing.T) {
	t.Helper()
	s := w.unsynced()
	for i, name := range w.databases {
		if p := s.Problems[i]; p.About != name || !strings.Contains(p.Text, "answers are from the saved snapshot of ") {
			t.Errorf("%+v", p)
		}
		w.server.reaches(1, fromSaved, "schema", name)
	}
	w.server.stays(503)
}

// serves waits until so many guests are served, whatever the databases are.
func (w *warmStart) serves(guests int) {
	w.server.t.Helper()
	w.shows(fmt.Sprint("guests served: ", guests), func(st *api.Status) bool {
		return len(st.Bridges) == 1 && st.Bridges[0].Serving && st.Bridges[0].Guests.Served == guests
	})
}

// unsynced waits until no database is in sync.
func (w *warmStart) unsynced() api.Status {
	w.server.t.Helper()
	return w.eventually(slices.Repeat([]string{api.CodeDatabase}, len(w.databases))...)
}

// returns has the databases come back.
func (w *warmStart) returns() {
	w.server.t.Helper()
	w.open()
	w.eventually()
	w.server.reaches(0, fromSaved)
	w.server.ready(200)
}

// A puntdns that is started while Southbound is away answers what the one before it knew, to each
// tenant its own, and what has changed when Southbound is back.
func TestWarmStart(t *testing.T) {
	for _, tc := range []struct {
		name string
		both bool
		end  func(t *testing.T, w *warmStart)
	}{
		{"ended", false, func(_ *testing.T, w *warmStart) {
			w.close()
			w.unsynced()
			w.server.endWell()
		}},
		{"killed", true, func(t *testing.T, w *warmStart) {
			if err := w.server.Kill(); err == nil {
				t.Error("it has ended by itself")
			}
			w.close()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := newOverlap(t)
			row := n.AddDNS(map[string]string{"moving.internal": "10.0.1.60"}, "red")
			w := newWarmStart(t, n, tc.both)
			w.comesTo(w.red, "moving.internal.", "NOERROR 30 10.0.1.60")
			n.SetDNS(row, map[string]string{"moving.internal": "10.0.1.61"})
			w.comesTo(w.red, "moving.internal.", "NOERROR 30 10.0.1.61")
			changed := time.Now()
			w.Eventually("the change is in the file", func() error {
				_, written, err := w.file()
				if err == nil && !written.After(changed) {
					err = errors.New("not yet")
				}
				return err
			})
			tc.end(t, w)
			n.SetDNS(row, map[string]string{"moving.internal": "10.0.1.62"})
			w.Sync()

			begun := w.restart(t)
			w.comesTo(w.red, "moving.internal.", "NOERROR 30 10.0.1.61")
			t.Logf("right answers %s after the start", time.Since(begun))
			w.comesTo(w.blue, "db.internal.", "NOERROR 30 10.0.1.201")
			w.dig(t, false)
			w.interleave(t, 200, false)
			w.isSaved(t)
			w.returns()
			w.comesTo(w.red, "moving.internal.", "NOERROR 30 10.0.1.62")
			w.dig(t, false)
			w.server.toldTimes(t, 0, logSavedNotUsed, "")
			w.server.endWell()
		})
	}
}

// key returns a tunnel key of Southbound.
func (w *warmStart) key(table, row string) string {
	return strings.TrimSpace(w.SBCTL("get", table, row, "tunnel_key"))
}

// successor is a guest that has the keys of another. It collects what it is told.
type successor struct {
	guest *lab.Guest
	all   map[string]int
}

// ask asks all resolvers for names of each tenant.
func (a *successor) ask() {
	for _, resolver := range resolvers {
		for _, name := range []string{"db.internal.", "red.internal.", "blue.internal.", "peer."} {
			a.all[name+" "+isTold(a.guest, resolver, name)]++
		}
	}
}

// While no puntdns is there, tenants go, and others get their tunnel keys: one with a port of the
// same name, at the same interface, and one with another at the same OpenFlow port. A puntdns that
// is started while Southbound is away serves neither, and a guest that is still what it was.
func TestWarmStartKeysReused(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	aclSwitch(n.Lab, "gray", 1)
	n.AddDNS(map[string]string{"db.internal": "10.0.1.31"}, "gray")
	gray := aclGuest(n.Lab, "gray", 1, 1)
	w := newWarmStart(t, n, false)
	w.comesTo(w.red, "db.internal.", "NOERROR 30 10.0.1.101")
	w.comesTo(w.blue, "db.internal.", "NOERROR 30 10.0.1.201")
	w.comesTo(gray, "db.internal.", "NOERROR 30 10.0.1.31")
	keys := func(sw, port string) string { return w.key("Datapath_Binding", sw) + " " + w.key("Port_Binding", port) }
	ofRed, ofBlue := keys("red", "red-vm1"), keys("blue", "blue-vm1")
	ofPort := w.blue.OFPort
	w.server.endWell()
	w.close()

	// Red goes, and green comes: the interface is not touched.
	reuse := func(sw, port, of string) {
		network, number, _ := strings.Cut(of, " ")
		n.NBCTL("set", "Logical_Switch", sw, "other_config:requested-tnl-key="+network,
			"--", "set", "Logical_Switch_Port", port, "options:requested-tnl-key="+number)
		n.Sync()
		if got := keys(sw, port); got != of {
			t.Fatalf("%s has the keys %s, want %s", port, got, of)
		}
	}
	n.NBCTL("ls-del", "red", "--", "lr-del", "r-red")
	n.Sync()
	aclSwitch(n.Lab, "green", 1)
	n.AddDNS(map[string]string{"db.internal": "10.0.1.111"}, "green")
	addresses := w.red.MAC + " 10.0.1.11 fd00:1::11"
	n.NBCTL("lsp-add", "green", "red-vm1", "--", "lsp-set-addresses", "red-vm1", addresses, "--", "lsp-set-port-security", "red-vm1", addresses)
	reuse("green", "red-vm1", ofRed)
	// Blue goes with its guest, and gold comes with another.
	w.blue.Remove()
	n.NBCTL("ls-del", "blue", "--", "lr-del", "r-blue")
	n.Sync()
	aclSwitch(n.Lab, "gold", 1)
	n.AddDNS(map[string]string{"db.internal": "10.0.1.211"}, "gold")
	gold := aclGuest(n.Lab, "gold", 1, 1)
	n.Node.VSCTL("set", "Interface", gold.NodePort, fmt.Sprintf("ofport_request=%d", ofPort))
	n.Eventually("the OpenFlow port", func() error {
		if got := n.Node.VSCTL("get", "Interface", gold.NodePort, "ofport"); strings.TrimSpace(got) != fmt.Sprint(ofPort) {
			return fmt.Errorf("%s, want %d", got, ofPort)
		}
		return nil
	})
	reuse("gold", "gold-vm1", ofBlue)

	// What is not punted is answered by OVN's own DNS, for green and gold with names of theirs.
	may := map[*lab.Guest]string{w.red: "db.internal. NOERROR 3600 10.0.1.111", gold: "db.internal. NOERROR 3600 10.0.1.211"}
	successors := []*successor{{w.red, map[string]int{}}, {gold, map[string]int{}}}
	ask := func() {
		var wg sync.WaitGroup
		for _, a := range successors {
			wg.Go(a.ask)
		}
		wg.Wait()
	}
	begun := w.restart(t)
	n.Eventually("the guest that is what it was is served", func() error {
		ask()
		if got := isTold(gray, resolver4, "db.internal."); got != "NOERROR 30 10.0.1.31" {
			return errors.New(got)
		}
		return nil
	})
	t.Logf("right answers %s after the start", time.Since(begun))
	w.serves(1)
	for range 2 { // a beat each, at which the flows of ovn-controller are looked at
		ask()
		w.server.undisturbed(t)
		ask()
	}
	for _, a := range successors {
		t.Logf("%s is told %v", a.guest.Name, a.all)
		for got := range a.all {
			if got != may[a.guest] && !strings.HasSuffix(got, " none") && !strings.HasSuffix(got, " SERVFAIL") {
				t.Errorf("%s is told %s", a.guest.Name, got)
			}
		}
	}
	w.server.reaches(1, "coredns_ofpunt_guests")
	w.isSaved(t)

	w.returns()
	w.comesTo(w.red, "db.internal.", "NOERROR 30 10.0.1.111")
	w.comesTo(gold, "db.internal.", "NOERROR 30 10.0.1.211")
	w.comesTo(gray, "db.internal.", "NOERROR 30 10.0.1.31")
	w.comesTo(w.red, "red.internal.", "NXDOMAIN")
	w.comesTo(gold, "blue.internal.", "NXDOMAIN")
	w.server.endWell()
}

// While no puntdns is there and ovn-controller can't follow, the interfaces of two tenants get each
// other's names. The flows of ovn-controller are as they were, but not those of the ports that the
// interfaces are for now: a puntdns that is started while Southbound is away serves neither, and says so.
func TestWarmStartInterfacesSwapped(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	w := newWarmStart(t, n, false)
	w.comesTo(w.red, "db.internal.", "NOERROR 30 10.0.1.101")
	w.comesTo(w.blue, "db.internal.", "NOERROR 30 10.0.1.201")
	w.server.reaches(2, "coredns_ofpunt_guests")
	w.server.endWell()
	w.close()
	controller := n.Node.Daemon("ovn-controller")
	if err := controller.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = controller.Signal(syscall.SIGCONT) }()
	bind := func(red, blue string) {
		n.Node.VSCTL("--no-wait", "set", "Interface", w.red.NodePort, "external_ids:iface-id="+red, "--", "set", "Interface", w.blue.NodePort, "external_ids:iface-id="+blue)
	}
	bind("blue-vm1", "red-vm1")
	w.restart(t)
	w.serves(0)
	w.isSaved(t)
	for _, g := range []*lab.Guest{w.red, w.blue} {
		if got := isTold(g, resolver4, "db.internal."); got != "none" {
			t.Errorf("%s is told %s", g.Name, got)
		}
	}
	var guests api.Guests
	if w.ask(&guests, "guests"); len(guests.Guests) > 0 {
		t.Errorf("served are %+v", guests.Guests)
	}
	for _, port := range []string{"red-vm1", "blue-vm1"} {
		if !slices.ContainsFunc(guests.Unserved, func(u api.Unserved) bool {
			return u.Port == port && !u.Expected && strings.Contains(u.Reason, "do not confirm")
		}) {
			t.Errorf("of %s it is not told that it is not confirmed: %+v", port, guests.Unserved)
		}
	}
	// Each has its own again: the switch confirms that at the next look.
	bind("red-vm1", "blue-vm1")
	w.comesTo(w.red, "db.internal.", "NOERROR 30 10.0.1.101")
	w.comesTo(w.blue, "db.internal.", "NOERROR 30 10.0.1.201")
	if err := controller.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.returns()
	w.server.endWell()
}

// A file that is damaged, or of another chassis, costs a line of the log, and a start as without.
func TestWarmStartRefused(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	w := newWarmStart(t, n, false)
	restarted := func(why string) {
		t.Helper()
		begun := w.restart(t)
		w.server.ready(200)
		w.comesTo(w.red, "db.internal.", "NOERROR 30 10.0.1.101")
		t.Logf("right answers %s after the start", time.Since(begun))
		w.dig(t, false)
		w.server.toldTimes(t, 1, logSavedNotUsed, "")
		w.server.toldTimes(t, 1, logSavedNotUsed, why)
		w.server.toldTimes(t, 0, logSavedTaken)
		w.server.endWell()
	}
	w.server.endWell()
	path, _, err := w.file()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	restarted("its checksum is wrong")

	// The node gets another chassis, and ovn-controller the same guests. A running ovn-controller of OVN
	// 26.03 aborts when the name changes.
	n.Node.Kill("ovn-controller")
	n.Node.VSCTL("--no-wait", "set", "Open_vSwitch", ".", "external_ids:system-id=other")
	n.SBCTL("chassis-del", "node1")
	n.Node.Revive("ovn-controller")
	n.Eventually("the new chassis", func() error {
		if got := n.SBCTL("--bare", "--columns=name", "list", "Chassis_Private"); got != "other" {
			return errors.New(got)
		}
		return nil
	})
	n.Sync()
	restarted(`it is of chassis "node1"`)
}
