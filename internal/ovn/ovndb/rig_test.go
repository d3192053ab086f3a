// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/binding"
	"github.com/puntdns/puntdns/internal/ovn/interest"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
)

// patience is how long a database or northd may take beside all the others.
const patience = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is both databases in one real ovsdb-server, and ovn-northd on request.
type rig struct {
	t      testing.TB
	server *ovsdbtest.Server
}

func newRig(t testing.TB) *rig {
	return &rig{t, ovsdbtest.Start(t, "/usr/share/ovn/ovn-nb.ovsschema", "/usr/share/ovn/ovn-sb.ovsschema")}
}

// nbFile and sbFile are where the server of newRig keeps its databases.
const (
	nbFile = "0.db"
	sbFile = "1.db"
)

func (r *rig) config(sb, nb bool) (c Config) {
	if sb {
		c.Southbound = []string{r.server.Endpoint}
	}
	if nb {
		c.Northbound = []string{r.server.Endpoint}
	}
	return c
}

// joinedReading is one way of reading the databases, with the networks joined.
type joinedReading struct {
	name       string
	source     *Source
	local      bool // Monitor is Local
	northbound bool // Northbound is read
	alone      bool // Southbound is not
}

// joinedReadings has each of them for the chassis hv1 with the interfaces of some ports.
func (r *rig) joinedReadings(ports []string) (all []*joinedReading) {
	for _, monitor := range []Monitor{All, Local} {
		for i, c := range []Config{r.config(true, false), r.config(true, true), r.config(false, true)} {
			c.Monitor = monitor
			s := r.acquire(c)
			r.t.Cleanup(s.Request(Requests{Routers: true}))
			s.nameChassis("hv1")
			s.as("br").setPorts(ports, 0)
			all = append(all, &joinedReading{
				name:   fmt.Sprintf("southbound %v, northbound %v, monitor %d", i < 2, i > 0, monitor),
				source: s, local: monitor == Local, northbound: i > 0, alone: i == 2,
			})
		}
	}
	return all
}

// must runs a program to its end and gives what it prints.
func (r *rig) must(name string, args ...string) string {
	r.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("%s %q: %v: %s", name, args, err, errs.String())
	}
	return strings.TrimSpace(out.String())
}

// startNorthd runs ovn-northd to the end of the test.
func (r *rig) startNorthd() {
	r.t.Helper()
	cmd := exec.Command("ovn-northd", "--no-chdir", "-vconsole:warn", "-vfile:off", "-vsyslog:off",
		"--unixctl="+filepath.Join(r.server.Dir, "northd.ctl"), "--ovnnb-db="+r.server.Endpoint, "--ovnsb-db="+r.server.Endpoint)
	northd, err := testkit.StartDaemon(cmd)
	if err != nil {
		r.t.Fatalf("ovn-northd: %v", err)
	}
	r.t.Cleanup(northd.Kill)
}

// nbctl runs ovn-nbctl; commands are separated by "--".
func (r *rig) nbctl(command string) string {
	r.t.Helper()
	return r.must("ovn-nbctl", append([]string{"--db=" + r.server.Endpoint, "--no-leader-only"}, words(command)...)...)
}

func (r *rig) sbctl(command string) string {
	r.t.Helper()
	return r.must("ovn-sbctl", append([]string{"--db=" + r.server.Endpoint, "--no-leader-only"}, words(command)...)...)
}

// words splits at spaces, of which "~" is one that does not split.
func words(s string) []string {
	all := strings.Fields(s)
	for i, w := range all {
		all[i] = strings.ReplaceAll(w, "~", " ")
	}
	return all
}

// acquire starts a Source that ends with the test.
func (r *rig) acquire(c Config) *Source {
	r.t.Helper()
	s, err := Acquire(c)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(s.Release)
	return s
}

// eventually waits for a snapshot that wrong has no complaint about.
func eventually(t testing.TB, s *Source, wrong func(*ovn.Snapshot) string) *ovn.Snapshot {
	t.Helper()
	var snapshot *ovn.Snapshot
	found := false
	defer func() {
		if !found {
			t.Logf("%s\n%+v", ovn.Dump(snapshot), s.Status())
		}
	}()
	testkit.OnChange(t, s, "a snapshot", func() error {
		snapshot = s.Snapshot()
		if complaint := wrong(snapshot); complaint != "" {
			return errors.New(complaint)
		}
		return nil
	})
	found = true
	hasLogged(t, s)
	return snapshot
}

// hasLogged waits until all lines about the present snapshot are written.
func hasLogged(t testing.TB, s *Source) {
	t.Helper()
	testkit.Eventually(t, "the lines of the log are written", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.mu.writing
	})
}

// lookups checks lines of the form "SWITCH NAME = ANSWER", where NAME may have
// "/DOMAIN" behind and ANSWER is empty for an unknown name. "!" before it is for
// an ovn-owned row.
func lookups(text string) func(*ovn.Snapshot) string {
	return func(s *ovn.Snapshot) string {
		var wrong []string
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			question, want, _ := strings.Cut(strings.TrimSpace(line), " =")
			name, question, _ := strings.Cut(question, " ")
			question, domain, _ := strings.Cut(question, "/")
			got := "no such network"
			if n := s.NetworkByName(name); n != nil {
				a, ok := n.Lookup(question, domain)
				if got = ovn.ShowAnswer(a); !ok {
					got = ""
				} else if got == "" {
					got = "nothing"
				}
				if a.OVNOwned {
					got = "!" + got
				}
			}
			if got != strings.TrimSpace(want) {
				wrong = append(wrong, fmt.Sprintf("%s: got %q", strings.TrimSpace(line), got))
			}
		}
		return strings.Join(wrong, "\n")
	}
}

// guests are the names of those in a snapshot, sorted.
func guests(s *ovn.Snapshot) string {
	var all []string
	for p := range s.Guests() {
		all = append(all, p.Name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// networks are the names of those in a snapshot, sorted.
func networks(s *ovn.Snapshot) string {
	var all []string
	for n := range s.Networks() {
		all = append(all, n.Name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func networkID(t testing.TB, s string) origin.Network {
	t.Helper()
	id, err := parseNetwork(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func mustAddr(s string) netip.Addr { return netip.MustParseAddr(s) }

func parseNetwork(s string) (origin.Network, error) {
	id, err := ovsdb.ParseUUID(s)
	return origin.Network(id), err
}

// stage is the logical table of OVN's DNS, as northd has it.
func (r *rig) stage() int {
	r.t.Helper()
	out := r.sbctl("--bare --columns=table_id find Logical_Flow pipeline=ingress external_ids:stage-name=" + topology.StageName)
	n, err := strconv.Atoi(strings.Fields(out)[0])
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func mustEndpoints(t testing.TB, list []string) []endpoint.Endpoint {
	t.Helper()
	all, err := endpoint.ParseActive(list)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// rawJSON is an operation as it stands.
func rawJSON(s string) json.RawMessage { return json.RawMessage(s) }

// narrow lets the time pass after which rows go that nothing wants any more.
func narrow(s *Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock().Add(interest.NarrowAfter)
	s.clock = func() time.Time { return now }
	s.update()
}

// as returns the Reader of a bridge, which it opens.
func (s *Source) as(bridge string) *Reader {
	s.mu.Lock()
	for r := range s.readers {
		if r.bridge == bridge {
			s.mu.Unlock()
			return r
		}
	}
	s.mu.Unlock()
	return s.open(bridge)
}

// setPorts is SetLocal without a change of the chassis.
func (r *Reader) setPorts(names []string, grace time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.local == nil
	r.local = &binding.LocalPorts{Names: names, Grace: grace}
	r.setPlugged(first)
}

// nameChassis is SetLocal without ports.
func (s *Source) nameChassis(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setChassis(name)
}
