// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/endpoint/endpointtest"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
)

type object = map[string]any

func set(all ...any) []any { return []any{"set", append([]any{}, all...)} }

func dict(pairs ...[2]string) []any { return []any{"map", append([][2]string{}, pairs...)} }

func uuid(id ovsdb.UUID) [2]string { return [2]string{"uuid", id.String()} }

func insert(name string, columns object) object {
	row := object{"name": name}
	for k, v := range columns {
		row[k] = v
	}
	return object{"op": "insert", "table": "Thing", "row": row}
}

func byName(name string) []any { return []any{[]any{"name", "==", name}} }

func update(name string, row object) object {
	return object{"op": "update", "table": "Thing", "where": byName(name), "row": row}
}

func remove(name string) object {
	return object{"op": "delete", "table": "Thing", "where": byName(name)}
}

func inserted(t *testing.T, result json.RawMessage) ovsdb.UUID {
	t.Helper()
	var r struct{ UUID [2]string }
	if err := json.Unmarshal(result, &r); err != nil {
		t.Fatal(err)
	}
	id, err := ovsdb.ParseUUID(r.UUID[1])
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func ptr[T any](v T) *T { return &v }

// Each step is one transaction; want is row "a" after it, from the update and from
// the initial contents that a new client gets.
func TestRowsFollowTheServer(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	b := inserted(t, s.Transact(t, "Things", insert("b", nil))[0])
	r := newReplica()
	start(t, r, nil, s.Endpoint)
	r.waitSynced(t)

	for _, step := range []struct {
		name string
		op   object
		want thing
	}{
		{"insert with defaults", insert("a", nil), thing{Name: "a"}},
		{"scalars", update("a", object{"num": -5, "flag": true, "opt": "", "optint": -7}),
			thing{Name: "a", Num: -5, Flag: true, Opt: ptr(""), OptInt: ptr(int64(-7))}},
		{"optional scalars change", update("a", object{"num": 9007199254740993, "flag": false, "opt": "y", "optint": 8}),
			thing{Name: "a", Num: 9007199254740993, Opt: ptr("y"), OptInt: ptr(int64(8))}},
		{"optional scalars go", update("a", object{"num": 0, "opt": set(), "optint": set()}), thing{Name: "a"}},
		{"sets", update("a", object{"names": set("p", "q"), "two": set("k")}),
			thing{Name: "a", Names: []string{"p", "q"}, Two: []string{"k"}}},
		{"sets change", update("a", object{"names": set("q", "r"), "two": set("l")}),
			thing{Name: "a", Names: []string{"q", "r"}, Two: []string{"l"}}},
		{"sets grow and shrink", update("a", object{"names": set(), "two": set("k", "l")}),
			thing{Name: "a", Two: []string{"k", "l"}}},
		{"maps", update("a", object{"two": set(), "map": dict([2]string{"a", "1"}, [2]string{"b", "2"}), "onemap": dict([2]string{"x", "1"})}),
			thing{Name: "a", Map: map[string]string{"a": "1", "b": "2"}, One: map[string]string{"x": "1"}}},
		{"maps change", update("a", object{"map": dict([2]string{"a", "9"}, [2]string{"c", ""}), "onemap": dict([2]string{"x", "2"})}),
			thing{Name: "a", Map: map[string]string{"a": "9", "c": ""}, One: map[string]string{"x": "2"}}},
		{"the key of a map of one changes", update("a", object{"map": dict(), "onemap": dict([2]string{"y", "2"})}),
			thing{Name: "a", One: map[string]string{"y": "2"}}},
		{"references", update("a", object{"onemap": dict(), "ref": uuid(b), "refs": set(uuid(b))}),
			thing{Name: "a", Ref: b, Refs: []ovsdb.UUID{b}}},
		{"weak references go with their row", remove("b"), thing{Name: "a"}},
		{"text", update("a", object{"opt": "é😀\"\\/\n\r\t\b\f\u0001\u007f\u2028", "map": dict([2]string{"ключ", "значение"})}),
			thing{Name: "a", Opt: ptr("é😀\"\\/\n\r\t\b\f\u0001\u007f\u2028"), Map: map[string]string{"ключ": "значение"}}},
	} {
		t.Run(step.name, func(t *testing.T) {
			s.Transact(t, "Things", step.op)
			// Rows for a later client come whole, rows for the first client as changes.
			fresh := newReplica()
			start(t, fresh, nil, s.Endpoint)
			fresh.waitSynced(t)
			for name, r := range map[string]*replica{"update": r, "initial": fresh} {
				find := func() (th thing) {
					for _, th := range r.things {
						if th.Name == "a" {
							return th
						}
					}
					return th
				}
				r.wait(t, fmt.Sprintf("%s: %+v", name, step.want), func() bool {
					return cmp.Equal(step.want, find(), cmpopts.EquateEmpty())
				})
			}
		})
	}
	s.Transact(t, "Things", remove("a"))
	r.wait(t, "no rows", func() bool { return len(r.things) == 0 })
}

// A replica that followed random changes equals one that begins at their end.
func TestRandomChanges(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	r := newReplica()
	c := start(t, r, nil, s.Endpoint)
	rng := rand.New(rand.NewPCG(1, 2))
	letters := func() (all []any) {
		for _, l := range "abcdef" {
			if rng.IntN(2) == 0 {
				all = append(all, string(l))
			}
		}
		return all
	}
	pairs := func() (all [][2]string) {
		for _, k := range letters() {
			all = append(all, [2]string{k.(string), fmt.Sprint(rng.IntN(3))})
		}
		return all
	}
	row := func() object {
		o := object{"num": rng.IntN(3), "names": set(letters()...), "map": dict(pairs()...), "opt": set()}
		if rng.IntN(2) == 0 {
			o["opt"] = fmt.Sprint(rng.IntN(3))
		}
		return o
	}
	for range 300 {
		name := fmt.Sprint(rng.IntN(20))
		switch rng.IntN(5) {
		case 0:
			s.Transact(t, "Things", remove(name))
		case 1:
			c.SetConditions(map[string][]ovsdb.Condition{"Thing": {
				{"num", "==", rng.IntN(3)}, {"names", "includes", []string{"a"}}, {"name", "==", name},
			}})
		case 2:
			s.Transact(t, "Things", insert(name, row()))
		case 3:
			c.Resync()
			fallthrough
		default:
			s.Transact(t, "Things", update(name, row()))
		}
	}
	gen := c.SetConditions(map[string][]ovsdb.Condition{"Thing": nil})
	r.waitGen(t, gen)
	fresh := newReplica()
	start(t, fresh, nil, s.Endpoint)
	fresh.waitSynced(t)
	r.wait(t, "the same picture", func() bool {
		return len(r.things) > 0 && cmp.Equal(fresh.things, r.things, cmpopts.EquateEmpty())
	})
}

func TestConditions(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	ids := s.Transact(t, "Things",
		insert("one", object{"num": 1, "names": set("x", "y"), "map": dict([2]string{"k", "v"})}),
		insert("two", object{"num": 2, "names": set("y")}),
		object{"op": "insert", "table": "Other", "row": object{"name": "other"}},
	)
	r := newReplica()
	c := start(t, r, func(cfg *ovsdb.Config) {
		thing := thingTable
		thing.Where = []ovsdb.Condition{}
		cfg.Tables = []ovsdb.TableRequest{thing, otherTable}
	}, s.Endpoint)
	r.waitSynced(t)
	if diff := cmp.Diff([]string{"reset", "insert other", "conditions 0", "commit", "synced"}, r.takeEvents()); diff != "" {
		t.Fatal(diff)
	}

	// The rows come before the acknowledgement.
	r.waitGen(t, c.SetConditions(map[string][]ovsdb.Condition{"Thing": {{"num", "==", 1}}}))
	if diff := cmp.Diff([]string{"insert one", "commit", "conditions 1", "commit"}, r.takeEvents()); diff != "" {
		t.Fatal(diff)
	}
	// Nothing to change is acknowledged too.
	r.waitGen(t, c.SetConditions(map[string][]ovsdb.Condition{"Thing": {{"num", "==", 1}}, "No such table": nil}))
	if diff := cmp.Diff([]string{"conditions 2", "commit"}, r.takeEvents()); diff != "" {
		t.Fatal(diff)
	}
	for _, tt := range []struct {
		name  string
		where []ovsdb.Condition
		want  []string
	}{
		{"all", nil, []string{"one", "two"}},
		{"none", []ovsdb.Condition{}, nil},
		{"string", []ovsdb.Condition{{"name", "==", "two"}}, []string{"two"}},
		{"two clauses", []ovsdb.Condition{{"name", "==", "two"}, {"num", "<", int64(2)}}, []string{"one", "two"}},
		{"boolean", []ovsdb.Condition{{"flag", "==", true}}, nil},
		{"uuid", []ovsdb.Condition{{"_uuid", "==", inserted(t, ids[0])}}, []string{"one"}},
		{"set includes", []ovsdb.Condition{{"names", "includes", []string{"x"}}}, []string{"one"}},
		{"set excludes", []ovsdb.Condition{{"names", "excludes", []string{"x"}}}, []string{"two"}},
		{"set of references", []ovsdb.Condition{{"refs", "includes", []ovsdb.UUID{inserted(t, ids[0])}}}, nil},
		{"empty set", []ovsdb.Condition{{"refs", "==", []ovsdb.UUID(nil)}}, []string{"one", "two"}},
		{"map includes", []ovsdb.Condition{{"map", "includes", map[string]string{"k": "v"}}}, []string{"one"}},
		{"column that the server lacks", []ovsdb.Condition{{"absent", "==", "x"}}, nil},
		{"the same and another", []ovsdb.Condition{{"absent", "==", "x"}, {"name", "==", "two"}}, []string{"two"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.waitGen(t, c.SetConditions(map[string][]ovsdb.Condition{"Thing": tt.where}))
			if diff := cmp.Diff(tt.want, r.names()); diff != "" {
				t.Error(diff)
			}
		})
	}
	r.wait(t, "Other kept its rows", func() bool { return len(r.others) == 1 })

	t.Run("kept over a restart", func(t *testing.T) {
		c.SetConditions(map[string][]ovsdb.Condition{"Thing": {{"name", "==", "two"}}})
		s.Stop(t)
		gen := c.SetConditions(map[string][]ovsdb.Condition{"Thing": {{"name", "==", "one"}}})
		s.Start(t)
		r.waitGen(t, gen)
		if diff := cmp.Diff([]string{"one"}, r.names()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("bad value", func(t *testing.T) {
		c.SetConditions(map[string][]ovsdb.Condition{"Thing": {{"num", "==", 1.5}}})
		r.waitDown(t, `"Thing"`, `"num"`, "float64")
	})
	t.Run("bad column", func(t *testing.T) {
		c.SetConditions(map[string][]ovsdb.Condition{"Thing": {{"nothing", "==", 1}}})
		r.waitDown(t, `"nothing"`, "not asked for")
	})
	t.Run("good again", func(t *testing.T) {
		r.waitGen(t, c.SetConditions(map[string][]ovsdb.Condition{"Thing": nil}))
		if diff := cmp.Diff([]string{"one", "two"}, r.names()); diff != "" {
			t.Error(diff)
		}
	})
}

// Resync has all rows delivered once more, as the conditions have it, and changes go on to come.
func TestResync(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	s.Transact(t, "Things", insert("one", object{"num": 1}), insert("two", object{"num": 2}))
	r := newReplica()
	c := start(t, r, func(cfg *ovsdb.Config) {
		cfg.Tables[0].Where = []ovsdb.Condition{{Column: "num", Function: "==", Value: 1}}
	}, s.Endpoint)
	r.waitSynced(t)
	r.takeEvents()
	resets := func() (n int) {
		for _, e := range r.events {
			if e == "reset" {
				n++
			}
		}
		return n
	}
	c.Resync()
	r.wait(t, "the rows again", func() bool { return len(r.events) >= 4 })
	if diff := cmp.Diff([]string{"reset", "insert one", "conditions 0", "commit"}, r.takeEvents()); diff != "" {
		t.Fatal(diff)
	}
	// What comes beside it is neither lost nor done twice.
	gen := c.SetConditions(map[string][]ovsdb.Condition{"Thing": nil})
	c.Resync()
	c.Resync()
	s.Transact(t, "Things", insert("three", object{"num": 3}))
	r.waitGen(t, gen)
	r.wait(t, "all rows", func() bool { return len(r.things) == 3 && resets() > 0 })
	for i := range 20 {
		s.Transact(t, "Things", update("one", object{"num": 100 + i}))
		c.Resync()
	}
	s.Transact(t, "Things", remove("two"))
	r.wait(t, "the last state", func() bool {
		for _, th := range r.things {
			if th.Name == "one" && th.Num != 119 {
				return false
			}
		}
		return len(r.things) == 2
	})
	s.Stop(t)
	r.wait(t, "an outage", func() bool { return !r.state.Synced })
	c.Resync()
	s.Start(t)
	r.wait(t, "the rows of a new connection", func() bool { return r.state.Synced && len(r.things) == 2 })
}

// SetConditions may be called from within the callbacks, and many times.
func TestConditionsFromReceiver(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	for i := range 20 {
		s.Transact(t, "Things", insert(fmt.Sprintf("%02d", i), object{"num": i}))
	}
	r := newReplica()
	var c *ovsdb.Client
	ready := make(chan struct{})
	r.onCommit = func() {
		<-ready
		if n := len(r.things); n < 20 && r.gen == uint64(n) {
			c.SetConditions(map[string][]ovsdb.Condition{"Thing": {{"num", "<=", n}}})
		}
	}
	c = start(t, r, func(cfg *ovsdb.Config) {
		cfg.Tables[0].Where = []ovsdb.Condition{}
	}, s.Endpoint)
	close(ready)
	r.wait(t, "all rows", func() bool { return len(r.things) == 20 })

	var gen uint64
	for i := range 1000 {
		gen = c.SetConditions(map[string][]ovsdb.Condition{"Thing": {{"num", "==", i % 20}}})
	}
	r.waitGen(t, gen)
	if diff := cmp.Diff([]string{"19"}, r.names()); diff != "" {
		t.Error(diff)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	s.Transact(t, "Things", insert("old", nil))
	r := newReplica()
	start(t, r, nil, s.Endpoint)
	r.waitSynced(t)

	s.Stop(t)
	r.wait(t, "an outage", func() bool { return !r.state.Synced })
	if diff := cmp.Diff([]string{"old"}, r.names()); diff != "" {
		t.Errorf("in the outage: %s", diff)
	}
	s.Empty(t)
	s.Start(t)
	s.Transact(t, "Things", insert("new", nil))
	r.wait(t, "the new rows alone", func() bool {
		return r.state.Synced && len(r.things) == 1 && func() bool {
			for _, th := range r.things {
				return th.Name == "new"
			}
			return false
		}()
	})
}

func TestReceiverError(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	r := newReplica()
	start(t, r, nil, s.Endpoint)
	r.waitSynced(t)
	r.mu.Lock()
	r.onRow = func(ovsdb.UUID) error {
		r.onRow = nil
		return errors.New("too much")
	}
	r.mu.Unlock()
	r.takeEvents()
	s.Transact(t, "Things", insert("a", nil))
	r.wait(t, "the row in a new connection", func() bool { return r.state.Synced && len(r.things) == 1 })
	got := strings.Join(r.takeEvents(), "; ")
	if !strings.Contains(got, `table "Thing": row `) || !strings.Contains(got, "too much; reset; insert a; conditions 0; commit; synced") {
		t.Error(got)
	}
}

func TestEndpointsInTurn(t *testing.T) {
	t.Parallel()
	first, second := ovsdbtest.Start(t, thingSchema), ovsdbtest.Start(t, thingSchema)
	for _, s := range []*ovsdbtest.Server{first, second} {
		s.Transact(t, "Things", insert(s.Endpoint, nil))
	}
	r := newReplica()
	start(t, r, nil, "unix:/nonexistent", first.Endpoint, second.Endpoint)
	r.wait(t, "the first", func() bool { return r.state.Synced && r.state.Endpoint == first.Endpoint })
	first.Stop(t)
	r.wait(t, "the second", func() bool { return r.state.Synced && r.state.Endpoint == second.Endpoint })
	if diff := cmp.Diff([]string{second.Endpoint}, r.names()); diff != "" {
		t.Error(diff)
	}
	second.Stop(t)
	first.Start(t)
	r.wait(t, "the first again", func() bool { return r.state.Synced && r.state.Endpoint == first.Endpoint })
}

// The failure of each endpoint is reported once, not at every try.
func TestFailuresAreReportedOnce(t *testing.T) {
	t.Parallel()
	r := newReplica()
	start(t, r, nil, "unix:/nonexistent", "unix:/nowhere")
	r.waitDown(t, "/nowhere")
	s := ovsdbtest.Start(t, thingSchema) // takes many tries' time
	other := newReplica()
	start(t, other, nil, s.Endpoint)
	other.waitSynced(t)
	if got := r.takeEvents(); len(got) != 2 {
		t.Errorf("reported %q", got)
	}
}

func TestSchemaMismatch(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	for _, tt := range []struct {
		name     string
		database string
		table    ovsdb.TableRequest
		want     []string
	}{
		{"database", "Nothing", thingTable, []string{`no database "Nothing"`}},
		{"table", "Things", ovsdb.TableRequest{Table: "Thong"}, []string{`"Things"`, `no table "Thong"`}},
		{"column", "Things", ovsdb.TableRequest{Table: "Thing", Columns: []string{"name", "nome"}}, []string{`"Things"`, `"Thing"`, `no column "nome"`}},
		{"type", "Things", ovsdb.TableRequest{Table: "Thing", Columns: []string{"ratio"}}, []string{`column "ratio"`, "not supported"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newReplica()
			start(t, r, func(cfg *ovsdb.Config) {
				cfg.Database, cfg.Tables = tt.database, []ovsdb.TableRequest{tt.table}
			}, s.Endpoint)
			r.waitDown(t, append(tt.want, s.Endpoint)...)
		})
	}
}

// A table that the schema may lack has no rows then, and no conditions.
func TestMissingTable(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	r := newReplica()
	start(t, r, func(cfg *ovsdb.Config) {
		cfg.Tables = append(cfg.Tables, ovsdb.TableRequest{Table: "Thong", Columns: []string{"name"}, Where: []ovsdb.Condition{}, AllowMissing: true})
	}, s.Endpoint)
	r.waitSynced(t)
}

// The schemas of OVN and Open vSwitch can be asked for whole.
func TestRealSchemas(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, "/usr/share/ovn/ovn-nb.ovsschema", "/usr/share/ovn/ovn-sb.ovsschema", "/usr/share/openvswitch/vswitch.ovsschema")
	for database, table := range map[string]ovsdb.TableRequest{
		"OVN_Northbound": {Table: "Logical_Switch_Port", Columns: []string{"name", "type", "options", "parent_name", "tag", "addresses", "dynamic_addresses", "dhcpv4_options", "enabled", "up", "external_ids"}},
		"OVN_Southbound": {Table: "Port_Binding", Columns: []string{"logical_port", "datapath", "tunnel_key", "type", "parent_port", "tag", "mac", "options", "external_ids", "chassis"}},
		"Open_vSwitch":   {Table: "Interface", Columns: []string{"name", "ofport", "external_ids"}},
	} {
		t.Run(database, func(t *testing.T) {
			r := newReplica()
			start(t, r, func(cfg *ovsdb.Config) {
				cfg.Database, cfg.Tables = database, []ovsdb.TableRequest{table}
			}, s.Endpoint)
			r.waitSynced(t)
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := endpointtest.NewCA(t)
	files := ca.Issue(t, t.TempDir(), "server")
	s := ovsdbtest.StartArgs(t, []string{
		"--remote=pssl:0:127.0.0.1",
		"--certificate=" + files.Cert, "--private-key=" + files.Key, "--ca-cert=" + files.CA,
	}, thingSchema)
	address := "ssl:127.0.0.1:" + s.Port(t)
	stranger := endpointtest.NewCA(t).Issue(t, t.TempDir(), "stranger")
	unknown := stranger
	unknown.CA = files.CA

	for _, tt := range []struct {
		name  string
		files endpoint.TLSFiles
		want  string // error
	}{
		{"right", ca.Issue(t, t.TempDir(), "client"), ""},
		{"another CA", stranger, "unknown authority"},
		{"a certificate that the server does not trust", unknown, "tls"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tlsConfig, err := tt.files.Config(false)
			if err != nil {
				t.Fatal(err)
			}
			r := newReplica()
			c := start(t, r, func(cfg *ovsdb.Config) { cfg.TLS = tlsConfig }, address)
			if tt.want != "" {
				r.waitDown(t, tt.want)
				return
			}
			r.waitSynced(t)
			// A read that waits is woken without harm to the TLS stream.
			for i := range 20 {
				r.waitGen(t, c.SetConditions(map[string][]ovsdb.Condition{"Thing": {{"num", "==", i}}}))
				s.Transact(t, "Things", insert(fmt.Sprint(i), object{"num": i}))
				r.wait(t, "the row", func() bool { return len(r.things) == 1 })
			}
		})
	}
}

// A follower serves while it has a leader; one that is cut off does not.
func TestCluster(t *testing.T) {
	t.Parallel()
	servers := ovsdbtest.StartCluster(t, 2, "/usr/share/ovn/ovn-sb.ovsschema")
	leader, follower := servers[0], servers[1]
	reader := newReplica()
	start(t, reader, func(cfg *ovsdb.Config) {
		cfg.Database = "OVN_Southbound"
		cfg.Tables = []ovsdb.TableRequest{{Table: "Chassis", Columns: []string{"name"}}}
	}, follower.Endpoint)
	reader.waitSynced(t)

	leader.Signal(t, syscall.SIGSTOP)
	reader.waitDown(t, "cut off from its cluster")
	leader.Signal(t, syscall.SIGCONT)
	reader.waitSynced(t)
}

// A server that hangs is noticed, and one that goes on is found again.
func TestHangingServer(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	r := newReplica()
	start(t, r, func(cfg *ovsdb.Config) { cfg.ProbeInterval, cfg.ProbeTimeout = time.Second, 50*time.Millisecond }, s.Endpoint)
	r.waitSynced(t)
	s.Signal(t, syscall.SIGSTOP)
	r.waitDown(t, "silent")
	s.Signal(t, syscall.SIGCONT)
	r.waitSynced(t)
}
