// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/binding"
	"github.com/puntdns/puntdns/internal/ovn/interest"
	"github.com/puntdns/puntdns/internal/ovn/saved"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
)

// warmRig starts one Source after the other with the same file.
type warmRig struct {
	*rig
	config  Config
	log     *testkit.Lines
	ports   []string
	release func()
}

func newWarmRig(r *rig, config Config, ports ...string) *warmRig {
	w := &warmRig{rig: r, config: config, log: &testkit.Lines{}, ports: ports}
	w.config.WarmStart = WarmStart{Folder: r.t.TempDir(), MaxAge: time.Hour}
	w.config.Log = w.log
	return w
}

// start starts a Source and tells it the chassis and the interfaces.
func (w *warmRig) start() *Source {
	w.t.Helper()
	s, err := Acquire(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.release = s.Release
	s.as("br").setPorts(w.ports, time.Minute)
	s.nameChassis("hv1")
	return s
}

// file returns the path of the file.
func (w *warmRig) file() string {
	return filepath.Join(w.config.WarmStart.Folder, fileName(w.config.Key()))
}

// bindings are what ovn-controller would have in the switch for the guests of a Source.
func bindings(s *Source) (all []binding.InPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.sb.Ports.All() {
		if d := s.sb.Datapaths.Get(p.Datapath); d != nil && s.sb.IsHere(p) {
			all = append(all, binding.InPort{Cookie: binary.BigEndian.Uint32(id[:4]), Datapath: d.Key, Port: p.Key, VLAN: p.Tag, Interface: p.Interface()})
		}
	}
	return all
}

func settled(want string) func(*ovn.Snapshot) string {
	return func(s *ovn.Snapshot) string {
		if got := guests(s); got != want || !s.Settled {
			return fmt.Sprintf("guests %q, settled %v, want %q", got, s.Settled, want)
		}
		return ""
	}
}

// What a process has written the next one serves, as far as the switch confirms it, while no
// database answers; when they answer again nothing is different.
func TestWarmStart(t *testing.T) {
	t.Parallel()
	for _, monitor := range []Monitor{Local, All} {
		for _, both := range []bool{false, true} {
			t.Run(fmt.Sprintf("monitor %d, northbound %v", monitor, both), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.startNorthd()
				r.build(twoTenants)
				c := r.config(true, both)
				c.Monitor = monitor
				w := newWarmRig(r, c, "b1", "b2", "p1")
				s := w.start()
				forget := s.Request(Requests{Routers: true, ExternalIDs: []string{"a", "b"}})
				eventually(t, s, settled("b1 b2 c1 p1"))
				// northd has followed the bindings, and the Source has read all that northd has written:
				// a second one is told the same.
				r.nbctl("--wait=sb sync")
				fresh := c
				fresh.WarmStart.MaxAge = time.Second // for a Source of its own
				second := r.acquire(fresh)
				second.as("br").setPorts(w.ports, time.Minute)
				second.nameChassis("hv1")
				second.Request(Requests{Routers: true, ExternalIDs: []string{"a", "b"}})
				all := ovn.Dump(eventually(t, second, settled("b1 b2 c1 p1")))
				eventually(t, s, func(s *ovn.Snapshot) string { return cmp.Diff(all, ovn.Dump(s)) })
				want, flows := ovn.Dump(s.Snapshot()), bindings(s)
				// As at the end of a process: what it asks for is taken back first.
				forget()
				s.as("br").forget()
				w.release()

				r.server.Signal(t, syscall.SIGSTOP)
				next, err := Acquire(w.config)
				if err != nil {
					t.Fatal(err)
				}
				defer next.Release()
				defer r.server.Signal(t, syscall.SIGCONT)
				next.Request(Requests{Routers: true, ExternalIDs: []string{"a", "b"}})
				next.as("br").setPorts(w.ports, time.Minute)
				next.nameChassis("hv1")
				if got := guests(next.Snapshot()); got != "" {
					t.Errorf("guests %q before the switch has confirmed any", got)
				}
				next.as("br").Confirm(flows)
				eventually(t, next, settled("b1 b2 c1 p1"))
				if diff := cmp.Diff(want, ovn.Dump(next.Snapshot())); diff != "" {
					t.Error(diff)
				}
				if age := time.Since(next.Snapshot().Time); age < 0 || age > patience {
					t.Errorf("it is from %s", next.Snapshot().Time)
				}
				for _, d := range next.Status() {
					if d.Synced || d.Saved.IsZero() {
						t.Errorf("%+v, want that it tells of the file", d)
					}
				}
				r.server.Signal(t, syscall.SIGCONT)
				testkit.Eventually(r.t, "in sync", func() bool { return next.Status().Ready() })
				eventually(t, next, func(snapshot *ovn.Snapshot) string { return cmp.Diff(want, ovn.Dump(snapshot)) })
				for _, d := range next.Status() {
					if !d.Saved.IsZero() {
						t.Errorf("%+v, want that it tells of no file", d)
					}
				}
			})
		}
	}
}

// While no process was there a network has gone, and its tunnel keys are another tenant's, whose
// port even has the same name: nobody gets the old names, whatever part of the evidence differs.
func TestWarmStartKeysReused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	g := &graceRig{rig: r}
	g.fill(1, 1, 2, 1)
	w := newWarmRig(r, r.config(true, false), "red-vm1", "red-vm2", "blue-vm1")
	s := w.start()
	eventually(t, s, settled("blue-box blue-vm1 blue-vm2 red-box red-vm1 red-vm2"))
	old := bindings(s)
	w.release()
	file, err := os.ReadFile(w.file())
	if err != nil {
		t.Fatal(err)
	}
	// Blue has red's tunnel key and a port of the name red-vm1 now.
	g.empty()
	g.fill(2, 7, 1, 1)
	r.server.Transact(t, topology.SouthboundName, rawJSON(`{"op":"delete","table":"Port_Binding","where":[["logical_port","==","red-vm1"]]}`),
		rawJSON(`{"op":"update","table":"Port_Binding","where":[["logical_port","==","blue-vm1"]],"row":{"logical_port":"red-vm1"}}`))

	find := func(datapath, port uint32) binding.InPort {
		for _, b := range old {
			if b.Datapath == datapath && b.Port == port {
				return b
			}
		}
		t.Fatal("no such binding")
		return binding.InPort{}
	}
	vm1 := find(1, 1)
	for _, tt := range []struct {
		name  string
		flows []binding.InPort
		want  string
	}{
		{"no flows", nil, ""},
		{"another row, the same keys", []binding.InPort{{Cookie: vm1.Cookie ^ 1, Datapath: vm1.Datapath, Port: vm1.Port, VLAN: 0, Interface: vm1.Interface}}, ""},
		{"the same row, another network", []binding.InPort{{Cookie: vm1.Cookie, Datapath: 2, Port: vm1.Port, VLAN: 0, Interface: vm1.Interface}}, ""},
		{"the same row, another key", []binding.InPort{{Cookie: vm1.Cookie, Datapath: vm1.Datapath, Port: 2, VLAN: 0, Interface: vm1.Interface}}, ""},
		{"the row of another port", []binding.InPort{{Cookie: find(1, 2).Cookie, Datapath: vm1.Datapath, Port: vm1.Port, VLAN: 0, Interface: vm1.Interface}}, ""},
		{"another VLAN", []binding.InPort{{Cookie: vm1.Cookie, Datapath: vm1.Datapath, Port: vm1.Port, VLAN: 42, Interface: vm1.Interface}}, ""},
		{"the interface of another port", []binding.InPort{{Cookie: vm1.Cookie, Datapath: vm1.Datapath, Port: vm1.Port, VLAN: 0, Interface: "red-vm2"}}, ""},
		{"no interface", []binding.InPort{{Cookie: vm1.Cookie, Datapath: vm1.Datapath, Port: vm1.Port, VLAN: 0, Interface: ""}}, ""},
		{"all the same", []binding.InPort{vm1}, "red-vm1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(w.file(), file, 0o600); err != nil {
				t.Fatal(err)
			}
			r.server.Signal(t, syscall.SIGSTOP)
			defer r.server.Signal(t, syscall.SIGCONT)
			s := w.start()
			s.as("br").Confirm(tt.flows)
			eventually(t, s, settled(tt.want)) // those that are not confirmed are not waited for
			p := s.Snapshot().Guest(vm1.Datapath, vm1.Port)
			if served := p != nil && p.Local; served != (tt.want != "") {
				t.Errorf("the keys are those of %+v", p)
			}
			r.server.Signal(t, syscall.SIGCONT)
			eventually(t, s, func(s *ovn.Snapshot) string {
				p := s.Guest(vm1.Datapath, vm1.Port)
				if p == nil || p.SwitchName != "blue" || !p.Local {
					return fmt.Sprintf("the keys are those of %+v", p)
				}
				return ""
			})
			w.release()
		})
	}
}

// loaded waits until a Source has read its file, or knows that there is none.
func (r *rig) loaded(s *Source) {
	r.t.Helper()
	testkit.Eventually(r.t, "the file is read", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.warm.waiting || s.warm.file != nil
	})
}

// waitsForConfirmation has a Source wait without end: a busy machine may take longer than confirmPatience.
func (r *rig) waitsForConfirmation(s *Source) {
	r.t.Helper()
	r.loaded(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, timer := range s.warm.timers {
		timer.Stop()
	}
}

// A snapshot of a file is settled when the switch has confirmed the guests, and not before it is known
// which interfaces there are: else a process that takes over would have no guest at first. Bridges tell one
// after the other.
func TestWarmStartSettles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	g := &graceRig{rig: r}
	g.fill(1, 1, 2, 1)
	w := newWarmRig(r, r.config(true, false), "red-vm1", "blue-vm1")
	s := w.start()
	s.as("other").setPorts([]string{"red-vm2"}, time.Minute)
	eventually(t, s, settled("blue-box blue-vm1 blue-vm2 red-box red-vm1 red-vm2"))
	var first, second []binding.InPort
	for _, b := range bindings(s) {
		if b.Interface == "red-vm2" {
			second = append(second, b)
		} else {
			first = append(first, b)
		}
	}
	w.release()
	r.server.Signal(t, syscall.SIGSTOP)
	defer r.server.Signal(t, syscall.SIGCONT)
	next, err := Acquire(w.config)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Release()
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"chassis", func() { next.nameChassis("hv1") }},
		{"interfaces of a bridge", func() { next.as("br").setPorts(w.ports, time.Minute) }},
	} {
		step.do()
		r.waitsForConfirmation(next)
		if got := next.Snapshot(); got.Settled {
			t.Errorf("settled behind the %s, with guests %q", step.name, guests(got))
		}
	}
	next.as("br").Confirm(first)
	eventually(t, next, settled("blue-box blue-vm1 blue-vm2 red-box red-vm1"))
	next.as("other").setPorts([]string{"red-vm2"}, time.Minute)
	if next.Snapshot().Settled {
		t.Error("settled before the second bridge has confirmed its guest")
	}
	next.as("other").Confirm(second)
	eventually(t, next, settled("blue-box blue-vm1 blue-vm2 red-box red-vm1 red-vm2"))
}

// A virtual port has no interface and no flow that vouches for it. A process that takes over waits for
// Southbound then: the one before it may serve the port.
func TestWarmStartAwaitsVirtual(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	g := &graceRig{rig: r}
	g.fill(1, 1, 2, 1)
	r.server.Transact(t, topology.SouthboundName, rawJSON(`{"op":"update","table":"Port_Binding","where":[["logical_port","==","red-vm2"]],"row":{"type":"virtual"}}`))
	w := newWarmRig(r, r.config(true, false), "red-vm1", "blue-vm1", "blue-vm2")
	s := w.start()
	const all = "blue-box blue-vm1 blue-vm2 red-box red-vm1 red-vm2"
	eventually(t, s, settled(all))
	flows := slices.DeleteFunc(bindings(s), func(b binding.InPort) bool { return b.Interface == "red-vm2" })
	w.release()
	r.server.Signal(t, syscall.SIGSTOP)
	defer r.server.Signal(t, syscall.SIGCONT)
	next := w.start()
	defer w.release()
	r.waitsForConfirmation(next)
	next.as("br").Confirm(flows)
	eventually(t, next, func(s *ovn.Snapshot) string { return cmp.Diff("blue-box blue-vm1 blue-vm2 red-box red-vm1", guests(s)) })
	if next.Snapshot().Settled {
		t.Error("settled without the virtual port")
	}
	r.server.Signal(t, syscall.SIGCONT)
	eventually(t, next, settled(all))
}

// A file that is not of this machine, boot, configuration and chassis, that is old or damaged,
// costs a line of the log, and nothing else.
func TestWarmStartRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	g := &graceRig{rig: r}
	g.fill(1, 1, 2, 1)
	w := newWarmRig(r, r.config(true, false), "red-vm1")
	s := w.start()
	const all = "blue-box blue-vm1 blue-vm2 red-box red-vm1 red-vm2"
	eventually(t, s, settled(all))
	w.release()
	good, err := os.ReadFile(w.file())
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(w.file()); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	edit := func(change func(*saved.File)) func() {
		return func() {
			f, err := saved.Decode(slices.Clone(good))
			if err != nil {
				t.Fatal(err)
			}
			change(f)
			b, err := saved.Encode(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(w.file(), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(b []byte, mode os.FileMode) func() {
		return func() {
			if err := os.WriteFile(w.file(), b, mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(w.file(), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	damaged := slices.Clone(good)
	damaged[len(damaged)-1] ^= 1
	for _, tt := range []struct {
		name  string
		place func()
		want  string
	}{
		{"none", func() { os.Remove(w.file()) }, ""},
		{"good", write(good, 0o600), ""},
		{"empty", write(nil, 0o600), "no saved snapshot"},
		{"something else", write([]byte("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), 0o600), "no saved snapshot"},
		{"truncated", write(good[:len(good)-1], 0o600), "truncated"},
		{"damaged", write(damaged, 0o600), "checksum"},
		{"readable by others", write(good, 0o644), "0600"},
		{"a link", func() {
			os.Remove(w.file())
			os.WriteFile(w.file()+".real", good, 0o600)
			os.Symlink(w.file()+".real", w.file())
		}, "symbolic"},
		{"another boot", edit(func(f *saved.File) { f.Boot = "x" }), "booted"},
		{"another configuration", edit(func(f *saved.File) { f.Config = "x" }), "configuration"},
		{"another chassis", edit(func(f *saved.File) { f.Chassis = "hv2" }), `chassis "hv2"`},
		{"old", edit(func(f *saved.File) { f.Uptime -= 2 * time.Hour }), "old"},
		{"from the future", edit(func(f *saved.File) { f.Uptime += 2 * time.Hour }), "old"},
		{"other columns", edit(func(f *saved.File) {
			f.Databases[0].Columns = maps.Clone(f.Databases[0].Columns)
			f.Databases[0].Columns[topology.TableChassis] = []string{"hostname"}
		}), "columns"},
		{"other databases", edit(func(f *saved.File) { f.Databases = nil }), "databases"},
		{"bad conditions", edit(func(f *saved.File) { f.Databases[0].Conditions = []byte(`5`) }), "conditions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			os.Remove(w.file())
			tt.place()
			w.log = &testkit.Lines{}
			w.config.Log = w.log
			s := w.start()
			defer w.release()
			eventually(t, s, settled(all))
			if got := w.log.Count("not used: "); got != min(len(tt.want), 1) || w.log.Count(tt.want) < got {
				t.Errorf("the log has %q", w.log.All())
			}
		})
	}
}

// The file is written where rows or conditions have changed, and not since a position has moved: that
// does at each look in a cluster where others change something.
func TestSaveOnChange(t *testing.T) {
	t.Parallel()
	servers, r, c, here := largeRig(t, 1)
	slices.Sort(here)
	w := newWarmRig(r, c, here...)
	s := w.start()
	defer w.release()
	eventually(t, s, settled(strings.Join(here, " ")))
	testkit.Eventually(r.t, "in sync", func() bool { return s.Status().Ready() })
	position := func() ovsdb.Position {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.sbConn.position
	}
	written := func() bool {
		t.Helper()
		_ = os.Remove(w.file())
		s.save(false)
		_, err := os.Stat(w.file())
		return err == nil
	}
	if !written() || written() {
		t.Error("want that the file is written once")
	}
	before := position()
	servers[0].Transact(t, topology.SouthboundName, rawJSON(`{"op":"update","table":"Port_Binding","where":[["logical_port","==","p15-7"]],"row":{"mac":"02:00:00:00:00:01 10.9.9.9"}}`))
	testkit.Eventually(r.t, "the position moves", func() bool { return position().Last != before.Last })
	if written() {
		t.Error("written, though only the position has moved")
	}
	servers[0].Transact(t, topology.SouthboundName, rawJSON(`{"op":"update","table":"Port_Binding","where":[["logical_port","==","p3-7"]],"row":{"options":["map",[["hostname","changed"]]]}}`))
	eventually(t, s, lookups("net3 changed. = 10.3.0.7"))
	if !written() {
		t.Error("not written, though a row has changed")
	}
	s.mu.Lock()
	s.warm.expected.MaxAge = 0
	s.mu.Unlock()
	if !written() {
		t.Error("not written, though the file is too old soon")
	}
}

// The process that ends leaves a file alone that the next one has written with newer rows.
func TestSaveBesideNewer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	(&graceRig{rig: r}).fill(1, 1, 2, 1)
	for _, tt := range []struct {
		name   string
		newer  time.Duration
		stands bool
	}{{"newer", time.Hour, true}, {"older", -time.Hour, false}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWarmRig(&rig{t, r.server}, r.config(true, false), "red-vm1")
			s := w.start()
			eventually(t, s, settled("blue-box blue-vm1 blue-vm2 red-box red-vm1 red-vm2"))
			s.save(false)
			f, err := saved.Read(w.file())
			if err != nil {
				t.Fatal(err)
			}
			f.Uptime += tt.newer
			there, err := saved.Encode(f)
			if err == nil {
				err = saved.Write(w.file(), there)
			}
			if err != nil {
				t.Fatal(err)
			}
			w.release()
			left, err := os.ReadFile(w.file())
			if stands := bytes.Equal(left, there); err != nil || stands != tt.stands {
				t.Errorf("the file stands: %v, %v", stands, err)
			}
		})
	}
}

// What is there before a process gives up requests at its end is written.
func TestSaveBeforeTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	(&graceRig{rig: r}).fill(1, 1, 2, 1)
	w := newWarmRig(&rig{t, r.server}, r.config(true, false), "red-vm1")
	s := w.start()
	release := s.Request(Requests{Routers: true})
	eventually(t, s, settled("blue-box blue-vm1 blue-vm2 red-box red-vm1 red-vm2"))
	testkit.Eventually(r.t, "routers are asked for", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.sbConn.Acknowledged.Has(topology.TablePort, interest.Localnets)
	})
	release()
	s.save(false)
	w.release()
	f, err := saved.Read(w.file())
	if err != nil || len(f.Databases) == 0 {
		t.Fatalf("%+v, %v", f, err)
	}
	if c, err := decodeConditions(f.Databases[0].Conditions); err != nil || !c.Has(topology.TablePort, interest.Localnets) {
		t.Errorf("%+v, %v", c, err)
	}
}

// Conditions are saved with the position that reflects them.
func TestSaveBetweenConditionsAndCommit(t *testing.T) {
	t.Parallel()
	// The server takes the connection and says nothing: without one, the end of an attempt to connect discards what
	// the receiver below has.
	path := t.TempDir() + "/sb"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := Config{Southbound: []string{"unix:" + path}}
	s := start(c, mustEndpoints(t, c.Southbound), nil, nil)
	defer s.stop()
	savesRouters := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sbConn.position.Columns = map[string][]string{}
		saved, ok := s.sbConn.savedHead()
		if !ok {
			t.Error("nothing to save")
		}
		c, err := decodeConditions(saved.Conditions)
		if err != nil {
			t.Error(err)
		}
		return c.Has(topology.TablePort, interest.Localnets)
	}
	s.mu.Lock()
	s.sbConn.filled = true
	s.sbConn.InFlight = []interest.ConditionSet{{Gen: 1, Conditions: interest.Conditions{topology.TablePort: {interest.Localnets}}}}
	s.mu.Unlock()
	r := receiver{source: s, db: s.sbConn}
	r.Conditions(1)
	if savesRouters() {
		t.Error("saved with the position before the conditions")
	}
	r.Commit()
	if !savesRouters() {
		t.Error("not saved with the Commit")
	}
}

// A folder that can't be written is told of from the start on.
func TestWarmStartFolder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, folder string
		fails        bool
	}{
		{"it is there", t.TempDir(), false},
		{"it is missing", filepath.Join(t.TempDir(), "missing"), true},
		{"it is none", "/dev/null", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			w := newWarmRig(r, r.config(true, false))
			w.config.WarmStart.Folder = tt.folder
			s := w.start()
			t.Cleanup(w.release)
			r.loaded(s)
			hasLogged(t, s)
			if got := s.SaveFailure(); (got != "") != tt.fails || w.log.Count("not written") != 0 != tt.fails {
				t.Errorf("got %q, the log has %q", got, w.log.All())
			}
		})
	}
}

// hungLog hangs at the first warning until the test lets go, as a disk may.
type hungLog struct {
	testkit.Lines
	hangs, resume chan struct{}
	once          sync.Once
}

func (l *hungLog) Warningf(format string, args ...any) {
	l.Lines.Warningf(format, args...)
	l.once.Do(func() {
		close(l.hangs)
		<-l.resume
	})
}

// A Source whose folder hangs does not stop others from being acquired and released. The log stands in for
// the disk: the warning that the folder can't be written is logged where the folder is looked at.
func TestAcquireBesideHungFolder(t *testing.T) {
	t.Parallel()
	log := &hungLog{hangs: make(chan struct{}), resume: make(chan struct{})}
	c := Config{Southbound: []string{"unix:" + t.TempDir() + "/sb"}, WarmStart: WarmStart{Folder: "/dev/null", MaxAge: time.Hour}, Log: log}
	acquired := make(chan *Source)
	go func() {
		s, err := Acquire(c)
		if err != nil {
			t.Error(err)
		}
		acquired <- s
	}()
	<-log.hangs
	done := make(chan struct{})
	go func() {
		defer close(done)
		s, err := Acquire(Config{Southbound: []string{"unix:" + t.TempDir() + "/sb"}})
		if err != nil {
			t.Error(err)
			return
		}
		s.Release()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("another Source waits for the folder")
	}
	close(log.resume)
	<-done
	(<-acquired).Release()
}

// A file that is read after the clients have started, since the disk hung, is not used: the rows are newer.
func TestWarmStartReadLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	(&graceRig{rig: r}).fill(1, 1, 2, 1)
	w := newWarmRig(r, r.config(true, false), "red-vm1")
	const all = "blue-box blue-vm1 blue-vm2 red-box red-vm1 red-vm2"
	s := w.start()
	eventually(t, s, settled(all))
	s.save(false)
	s.load()
	if s.NeedsConfirmation() || s.Snapshot().PortByName("red-vm1") == nil {
		t.Error("the file is used")
	}
	w.release()
}

// While the file is read, the switch may confirm guests, and the chassis may become known. The result is that of
// any other order.
func TestWarmStartReadLast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	(&graceRig{rig: r}).fill(1, 1, 2, 1)
	w := newWarmRig(r, r.config(true, false), "red-vm1", "blue-vm1")
	s := w.start()
	eventually(t, s, settled("blue-box blue-vm1 blue-vm2 red-box red-vm1 red-vm2"))
	flows := bindings(s)
	w.release()
	r.server.Signal(t, syscall.SIGSTOP)
	defer r.server.Signal(t, syscall.SIGCONT)
	sb, nb, err := w.config.parse()
	if err != nil {
		t.Fatal(err)
	}
	next := newSource(w.config, sb, nb, nil)
	next.as("br").setPorts(w.ports, time.Minute)
	next.nameChassis("hv1")
	if !next.NeedsConfirmation() {
		t.Error("no confirmation is asked for while the file is read")
	}
	next.as("br").Confirm(flows)
	next.startGoroutines()
	defer next.stop()
	eventually(t, next, settled("blue-box blue-vm1 blue-vm2 red-box red-vm1 red-vm2"))
}

// largeRig is a cluster with five thousand ports in 20 networks. Ten of these have a guest here.
func largeRig(t *testing.T, n int) ([]*ovsdbtest.Server, *rig, Config, []string) {
	servers := ovsdbtest.StartCluster(t, n, "/usr/share/ovn/ovn-sb.ovsschema")
	r := &rig{t, servers[0]}
	g := &graceRig{rig: r}
	ops := append(g.chassisOps(1), rawJSON(fmt.Sprintf(`{"op":"insert","table":"Logical_Flow","row":{"pipeline":"ingress","table_id":20,"match":"1","actions":"next","external_ids":["map",[["stage-name",%q]]]}}`, topology.StageName)))
	var here []string
	for network := range 20 {
		dp := rowID(1000 + network)
		ops = append(ops, rawJSON(fmt.Sprintf(`{"op":"insert","table":"Datapath_Binding","uuid":%q,"row":{"tunnel_key":%d,"external_ids":["map",[["name","net%d"],["logical-switch",%q]]]}}`, dp, network+1, network, rowID(2000+network))))
		var records []string
		for port := range 250 {
			name, bound := fmt.Sprintf("p%d-%d", network, port), `["set",[]]`
			if port == 0 && network < 10 {
				bound = fmt.Sprintf(`["uuid",%q]`, rowID(1))
				here = append(here, name)
			}
			records = append(records, fmt.Sprintf(`["vm%d.example","10.%d.0.%d"]`, port, network, port))
			ops = append(ops, rawJSON(fmt.Sprintf(`{"op":"insert","table":"Port_Binding","row":{"logical_port":%q,"datapath":["uuid",%q],"tunnel_key":%d,"mac":"02:00:00:00:00:01 10.%d.0.%d","chassis":%s}}`,
				name, dp, port+1, network, port, bound)))
		}
		ops = append(ops, rawJSON(fmt.Sprintf(`{"op":"insert","table":"DNS","row":{"records":["map",[%s]],"datapaths":["uuid",%q]}}`, strings.Join(records, ","), dp)))
	}
	servers[0].Transact(t, topology.SouthboundName, ops...)
	// A server forgets transactions that are larger than the database, and so that one soon.
	servers[0].Transact(t, topology.SouthboundName, rawJSON(`{"op":"update","table":"Port_Binding","where":[["logical_port","==","p19-7"]],"row":{"mac":"02:00:00:00:00:01 10.9.9.8"}}`))
	c := Config{}
	for _, s := range servers {
		c.Southbound = append(c.Southbound, s.Endpoint)
	}
	return servers, r, c, here
}

// With a cluster, or a relay, a warm start costs a twentieth of what a cold one does.
func TestWarmStartBytes(t *testing.T) {
	t.Parallel()
	servers, r, c, here := largeRig(t, 1)
	relay := ovsdbtest.StartRelay(t, topology.SouthboundName, servers...)
	slices.Sort(here)
	for _, tt := range []struct{ name, endpoint string }{{"server", servers[0].Endpoint}, {"relay", relay.Endpoint}} {
		t.Run(tt.name, func(t *testing.T) {
			c.Southbound = []string{tt.endpoint}
			w := newWarmRig(&rig{t, r.server}, c, here...)
			s := w.start()
			eventually(t, s, settled(strings.Join(here, " ")))
			cold, flows := s.Status()[0].Counts.BytesRead, bindings(s)
			// Others go on while it is down.
			w.release()
			servers[0].Transact(t, topology.SouthboundName, rawJSON(`{"op":"update","table":"Port_Binding","where":[["logical_port","==","p15-7"]],"row":{"mac":"02:00:00:00:00:01 10.9.9.9"}}`))
			servers[0].Transact(t, topology.SouthboundName, rawJSON(`{"op":"update","table":"Port_Binding","where":[["logical_port","==","p3-7"]],"row":{"options":["map",[["hostname","changed"]]]}}`))
			begun := time.Now()
			s = w.start()
			defer w.release()
			s.as("br").Confirm(flows)
			eventually(t, s, settled(strings.Join(here, " ")))
			first := time.Since(begun)
			eventually(t, s, lookups("net3 changed. = 10.3.0.7"))
			testkit.Eventually(r.t, "in sync", func() bool { return s.Status().Ready() })
			eventually(t, s, settled(strings.Join(here, " ")))
			status := s.Status()[0]
			t.Logf("cold %d bytes, warm %d; first answers after %s, in sync after %s", cold, status.Counts.BytesRead, first, time.Since(begun))
			if status.Counts.Resumed != 1 || status.Counts.Contents != 0 {
				t.Errorf("%+v", status.Counts)
			}
			if warm := status.Counts.BytesRead; warm*20 > cold {
				t.Errorf("a warm start takes %d bytes, a cold one %d", warm, cold)
			}
			servers[0].Transact(t, topology.SouthboundName, rawJSON(`{"op":"update","table":"Port_Binding","where":[["logical_port","==","p3-7"]],"row":{"options":["map",[]]}}`))
		})
	}
}

// The leader is killed: each node answers on, comes back to another server, and is sent what has
// changed and nothing else.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	servers, r, c, here := largeRig(t, 3)
	slices.Sort(here)
	want := strings.Join(here, " ")
	var sources []*Source
	for i := range 10 {
		c.WarmStart.MaxAge = time.Duration(i) // for a Source of its own
		s := r.acquire(c)
		s.as("br").setPorts(here, time.Minute)
		s.nameChassis("hv1")
		sources = append(sources, s)
	}
	for _, s := range sources {
		eventually(t, s, settled(want))
	}
	contents := 0
	for _, s := range sources {
		contents += int(s.Status()[0].Counts.Contents)
	}
	stop := make(chan struct{})
	var asked, lost atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, s := range sources {
				asked.Add(1)
				if lookups("net3 vm7.example. = 10.3.0.7")(s.Snapshot()) != "" {
					lost.Add(1)
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	begun := time.Now()
	servers[0].Stop(t)
	// A change after the election reaches all of them.
	servers[1].Transact(t, topology.SouthboundName, rawJSON(`{"op":"update","table":"Port_Binding","where":[["logical_port","==","p3-7"]],"row":{"options":["map",[["hostname","changed"]]]}}`))
	for _, s := range sources {
		eventually(t, s, lookups("net3 changed. = 10.3.0.7"))
	}
	t.Logf("all back after %s, %d queries meanwhile", time.Since(begun), asked.Load())
	close(stop)
	<-done
	if lost.Load() > 0 || asked.Load() == 0 {
		t.Errorf("%d of %d answers lost", lost.Load(), asked.Load())
	}
	again := 0
	for _, s := range sources {
		again += int(s.Status()[0].Counts.Contents)
	}
	if again != contents {
		t.Errorf("%d times all contents were sent again", again-contents)
	}
}
