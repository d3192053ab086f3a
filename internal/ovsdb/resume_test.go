// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
)

// hasEvent reports whether an event of a replica came. r.mu is held.
func (r *replica) hasEvent(event string) bool { return slices.Contains(r.events, event) }

// fill adds rows that are of no interest, with 99 in num. A server remembers no more
// transactions than the database is large.
func fill(t *testing.T, s *ovsdbtest.Server) {
	t.Helper()
	var ops []any
	for i := range 300 {
		ops = append(ops, insert(fmt.Sprint("filler ", i), object{"num": 99}))
	}
	s.Transact(t, "Things", ops...)
}

// After a cut a server of the cluster, or a relay of it, sends what has changed and nothing else.
func TestResume(t *testing.T) {
	t.Parallel()
	servers := ovsdbtest.StartCluster(t, 3, thingSchema)
	leader := servers[0]
	relay := ovsdbtest.StartRelay(t, "Things", servers...)
	for _, tt := range []struct {
		name      string
		cut       *ovsdbtest.Server
		endpoints []string
	}{
		{"another server", servers[1], []string{servers[1].Endpoint, servers[2].Endpoint}},
		{"the same server", servers[1], []string{servers[1].Endpoint}},
		{"a relay", servers[2], []string{servers[2].Endpoint, relay.Endpoint}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leader.Transact(t, "Things", object{"op": "delete", "table": "Thing", "where": []any{}})
			fill(t, leader)
			leader.Transact(t, "Things",
				insert("stays", nil), insert("changes", object{"map": dict([2]string{"a", "1"}, [2]string{"b", "2"}), "names": set("p", "q")}),
				insert("goes", nil), insert("hidden", object{"num": 7}))
			r := newReplica()
			where := []ovsdb.Condition{{Column: "num", Function: "==", Value: 0}}
			c := start(t, r, func(cfg *ovsdb.Config) {
				thing := thingTable
				thing.Where = where
				cfg.Tables = []ovsdb.TableRequest{thing, otherTable}
			}, tt.endpoints...)
			r.wait(t, "three rows", func() bool { return r.state.Synced && len(r.things) == 3 })
			r.takeEvents()

			tt.cut.Stop(t)
			leader.Transact(t, "Things", update("changes", object{"map": dict([2]string{"a", "9"}, [2]string{"c", "3"}), "names": set("q", "r")}))
			leader.Transact(t, "Things", remove("goes"))
			leader.Transact(t, "Things", update("hidden", object{"num": 0}), insert("new", nil))
			tt.cut.Start(t)
			r.wait(t, "what has changed", func() bool {
				return r.state.Synced && r.hasEvent("insert new") && len(r.things) == 4
			})
			events := strings.Join(r.takeEvents(), "; ")
			for _, unwanted := range []string{"reset", "insert stays", "insert changes"} {
				if strings.Contains(events, unwanted) {
					t.Errorf("%s: %s", unwanted, events)
				}
			}
			if got := c.Counts(); got.Resumed == 0 || got.Contents != 1 {
				t.Errorf("%+v, want one sync by contents, and others by changes", got)
			}
			fresh := newReplica()
			start(t, fresh, func(cfg *ovsdb.Config) { cfg.Tables[0].Where = where }, leader.Endpoint)
			fresh.waitSynced(t)
			if diff := cmp.Diff(fresh.things, r.things, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A standalone server has no history: the contents come anew.
func TestNoHistory(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	s.Transact(t, "Things", insert("a", nil))
	r := newReplica()
	c := start(t, r, nil, s.Endpoint)
	r.waitSynced(t)
	s.Stop(t)
	r.wait(t, "an outage", func() bool { return !r.state.Synced })
	r.takeEvents()
	s.Start(t)
	r.waitSynced(t)
	if !slices.Contains(r.takeEvents(), "reset") || c.Counts().Resumed != 0 {
		t.Errorf("%+v", c.Counts())
	}
}

// The transactions of others count towards the 100 that a server remembers. A client that no
// row comes to still knows one that is not forgotten.
func TestPositionFollowsOthers(t *testing.T) {
	t.Parallel()
	servers := ovsdbtest.StartCluster(t, 2, thingSchema)
	leader := servers[0]
	relay := ovsdbtest.StartRelay(t, "Things", servers...)
	fill(t, leader)
	leader.Transact(t, "Things", insert("mine", nil))
	for name, endpoint := range map[string]string{"follower": servers[1].Endpoint, "relay": relay.Endpoint} {
		t.Run(name, func(t *testing.T) {
			through, cut := cuttable(t, endpoint)
			r := newReplica()
			c := start(t, r, func(cfg *ovsdb.Config) {
				thing := thingTable
				thing.Where = []ovsdb.Condition{{Column: "name", Function: "==", Value: "mine"}}
				cfg.Tables = []ovsdb.TableRequest{thing}
			}, through)
			r.waitSynced(t)
			before, began := c.Counts().BytesRead, time.Now()
			const count = 160
			for i := range count {
				leader.Transact(t, "Things", insert(fmt.Sprint("other ", i), nil))
				if i%40 == 39 {
					// Each commit without a row is a transaction that has been asked for.
					r.wait(t, "the last transaction", func() bool {
						commits := 0
						for _, e := range r.events {
							if e == "commit" {
								commits++
							}
						}
						return commits > 1+i/40
					})
				}
			}
			// What the transactions of others cost is the requests, of which there are two a second at
			// most, and not a message each.
			most := (uint64(time.Since(began)/(500*time.Millisecond)) + 1) * 500
			if got := c.Counts().BytesRead - before; got > most {
				t.Errorf("%d bytes were read during %d transactions of others in %s", got, count, time.Since(began))
			}
			cut()
			r.wait(t, "an outage, and sync again", func() bool { return c.Counts().Resumed+c.Counts().Contents == 2 && r.state.Synced })
			if got := c.Counts(); got.Resumed != 1 || got.Contents != 1 {
				t.Errorf("%+v, want that the second connection brings changes only", got)
			}
		})
	}
}

// cuttable passes connections on to an endpoint until cut ends those that stand.
func cuttable(t *testing.T, to string) (through string, cut func()) {
	t.Helper()
	var mu sync.Mutex
	var stand []net.Conn
	through = fake(t, func(client net.Conn) {
		server, err := net.Dial("unix", strings.TrimPrefix(to, "unix:"))
		if err != nil {
			return
		}
		mu.Lock()
		stand = append(stand, client)
		mu.Unlock()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = io.Copy(server, client)
			server.Close()
		})
		_, _ = io.Copy(client, server)
		client.Close()
		wg.Wait()
	})
	return through, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range stand {
			conn.Close()
		}
		stand = nil
	}
}

// proxy passes connections on to an endpoint, and cuts each after a number of bytes of the
// server that cutAfter returns, 0 for never.
func proxy(t *testing.T, to string, cutAfter func() int) string {
	t.Helper()
	return fake(t, func(client net.Conn) {
		server, err := net.Dial("unix", strings.TrimPrefix(to, "unix:"))
		if err != nil {
			return
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = io.Copy(server, client)
			server.Close()
		})
		if n := cutAfter(); n > 0 {
			_, _ = io.CopyN(client, server, int64(n))
		} else {
			_, _ = io.Copy(client, server)
		}
		client.Close()
		server.Close()
		wg.Wait()
	})
}

// However often and wherever the connection is cut, within updates and changes of conditions
// too, no row is missing, left over, or changed twice.
func TestRandomCuts(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.StartCluster(t, 1, thingSchema)[0]
	rng := rand.New(rand.NewPCG(3, 4))
	var mu sync.Mutex
	through := proxy(t, s.Endpoint, func() int {
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(4) == 0 {
			return 1500 + rng.IntN(2000)
		}
		return 3500 + rng.IntN(12000)
	})
	intN := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	r := newReplica()
	c := start(t, r, nil, through)
	pairs := func() []any {
		var all [][2]string
		for _, k := range []string{"a", "b", "c", "d"} {
			if intN(2) == 0 {
				all = append(all, [2]string{k, fmt.Sprint(intN(3))})
			}
		}
		return dict(all...)
	}
	for i := range 400 {
		name := fmt.Sprint(intN(12))
		switch intN(6) {
		case 0:
			s.Transact(t, "Things", remove(name))
		case 1:
			c.SetConditions(map[string][]ovsdb.Condition{"Thing": {
				{"num", "==", intN(3)}, {"name", "==", name},
			}})
		case 2:
			s.Transact(t, "Things", insert(name, object{"num": intN(3), "map": pairs()}))
		default:
			s.Transact(t, "Things", update(name, object{"num": intN(3), "map": pairs(), "names": set(fmt.Sprint(intN(3)))}))
		}
		if i%50 == 49 {
			r.waitGen(t, c.SetConditions(map[string][]ovsdb.Condition{"Thing": nil}))
		}
	}
	gen := c.SetConditions(map[string][]ovsdb.Condition{"Thing": nil})
	r.waitGen(t, gen)
	// Cuts may have found the rows between two conditions each time. From now on they do not.
	s.Transact(t, "Things", insert("last", nil))
	for n := int64(1); c.Counts().Resumed == 0; n++ {
		s.Transact(t, "Things", update("last", object{"num": n}))
		r.wait(t, "an update", func() bool {
			for _, th := range r.things {
				if th.Name == "last" && th.Num == n {
					return true
				}
			}
			return false
		})
	}
	fresh := newReplica()
	start(t, fresh, nil, s.Endpoint)
	fresh.waitSynced(t)
	r.wait(t, "the same picture", func() bool { return cmp.Equal(fresh.things, r.things, cmpopts.EquateEmpty()) })
	t.Logf("%+v", c.Counts())
}

// asks is what a client has asked a fake server of a cluster for, one connection after the other.
type asks struct {
	mu   sync.Mutex
	list []string
}

func (a *asks) add(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, text)
}

// A client resumes with the conditions that its rows reflect. If the connection was cut between an update and
// the reply to a change of conditions, these are unknown: the client first requests no rows, and then the
// rows of the conditions.
func TestResumedConditions(t *testing.T) {
	t.Parallel()
	const (
		id   = "00112233-4455-6677-8899-aabbccddeeff"
		txn1 = "11111111-0000-4000-8000-000000000000"
		txn2 = "22222222-0000-4000-8000-000000000000"
		zero = "00000000-0000-0000-0000-000000000000"

		nobody = `["_uuid","==",["uuid","` + zero + `"]]`
		before = `[` + nobody + `,["name","==","before"]]`
		after  = `[["name","==","after"]]`
		noRows = `[` + nobody + `]`
	)
	for _, tt := range []struct {
		name string
		// onChange is what the server sends before it cuts the connection when it gets the
		// change of conditions.
		onChange string
		// The second connection asks with where and the last transaction, and changes the conditions
		// to those that were asked for if changes is set.
		where, last string
		changes     bool
	}{
		{"no answer to the change", "", before, txn1, true},
		{"an update, no reply", `{"id":null,"method":"update3","params":["puntdns","` + txn2 + `",{}]}`, noRows, zero, true},
		{"the reply", `{"id":null,"method":"update3","params":["puntdns","` + txn2 + `",{}]}{"id":%s,"result":{},"error":null}`, `[` + nobody + `,` + after[1:], txn2, false},
		{"half an update", `{"id":null,"method":"update3","params":["puntdns","` + txn2 + `",{"Thing":{"` + id + `":{"insert":{"name":"after"}}`, noRows, zero, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked asks
			var connections int
			r := newReplica()
			var c *ovsdb.Client
			synced := make(chan struct{}, 10)
			c = start(t, r, func(cfg *ovsdb.Config) {
				fakeTables(cfg)
				cfg.Tables[0].Where = []ovsdb.Condition{{Column: "name", Function: "==", Value: "before"}}
				cfg.ProbeInterval = time.Minute
				cfg.Receiver = plain{r}
			}, fake(t, func(conn net.Conn) {
				asked.mu.Lock()
				connections++
				n := connections
				asked.mu.Unlock()
				loaded := false
				dec := json.NewDecoder(conn)
				for {
					var req request
					if dec.Decode(&req) != nil {
						return
					}
					var params []json.RawMessage
					_ = json.Unmarshal(req.Params, &params)
					var changed map[string][]struct{ Where json.RawMessage }
					if req.Method == "monitor_cond_change" {
						_ = json.Unmarshal(params[2], &changed)
					}
					switch {
					case req.Method == "get_schema":
						fmt.Fprintf(conn, `{"id":%s,"result":%s,"error":null}`, req.ID, fakeSchema)
					case req.Method == "monitor_cond":
						fmt.Fprintf(conn, `{"id":%s,"result":null,"error":{"error":"unknown database"}}`, req.ID)
					case req.Method == "monitor_cond_since":
						var tables map[string][]struct{ Where json.RawMessage }
						_ = json.Unmarshal(params[2], &tables)
						if string(params[1]) == `"puntdns-position"` {
							fmt.Fprintf(conn, `{"id":%s,"result":[true,"%s",{}],"error":null}`, req.ID, txn2)
							continue
						}
						if n == 1 {
							fmt.Fprintf(conn, `{"id":%s,"result":[false,"%s",{}],"error":null}`, req.ID, txn1)
							continue
						}
						asked.add(fmt.Sprintf("%s %s", tables["Thing"][0].Where, params[3]))
						found := string(params[3]) != `"`+zero+`"`
						fmt.Fprintf(conn, `{"id":%s,"result":[%v,"%s",{}],"error":null}`, req.ID, found, txn2)
					case req.Method == "monitor_cancel":
						fmt.Fprintf(conn, `{"id":%s,"result":{},"error":null}`, req.ID)
					case req.Method == "monitor_cond_change" && n == 1 && !loaded:
						loaded = true
						fmt.Fprintf(conn, `{"id":null,"method":"update3","params":["puntdns","%s",{"Thing":{"%s":{"insert":{"name":"before"}}}}]}`, txn1, id)
						fmt.Fprintf(conn, `{"id":%s,"result":{},"error":null}`, req.ID)
						synced <- struct{}{}
					case req.Method == "monitor_cond_change" && n == 1:
						if strings.Contains(tt.onChange, "%s") {
							fmt.Fprintf(conn, tt.onChange, req.ID)
						} else {
							io.WriteString(conn, tt.onChange)
						}
						return
					case req.Method == "monitor_cond_change":
						asked.add("change to " + string(changed["Thing"][0].Where))
						fmt.Fprintf(conn, `{"id":%s,"result":{},"error":null}`, req.ID)
					}
				}
			}))
			<-synced
			r.waitSynced(t)
			gen := c.SetConditions(map[string][]ovsdb.Condition{"Thing": {{"name", "==", "after"}}})
			r.wait(t, "a second connection that reflects the change", func() bool {
				n := 0
				for _, e := range r.events {
					if e == "synced" {
						n++
					}
				}
				return r.gen == gen && n > 1
			})
			want := []string{tt.where + ` "` + tt.last + `"`}
			if tt.changes {
				want = append(want, "change to "+after)
			}
			asked.mu.Lock()
			defer asked.mu.Unlock()
			if diff := cmp.Diff(want, asked.list); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A server that clients resume with lives on when one begins with other conditions: Open vSwitch 3.1
// ends by a segmentation fault where conditions come to be on a column that it has not kept of rows.
func TestBeginBesideResumed(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.StartCluster(t, 1, thingSchema)[0]
	fill(t, s)
	s.Transact(t, "Things", insert("a", nil), insert("b", object{"num": 7}))
	with := func(r *replica, where []ovsdb.Condition) *ovsdb.Client {
		return start(t, r, func(cfg *ovsdb.Config) {
			thing := thingTable
			thing.Where = where
			cfg.Tables = []ovsdb.TableRequest{thing, otherTable}
		}, s.Endpoint)
	}
	resumed := newReplica()
	c := with(resumed, []ovsdb.Condition{{Column: "num", Function: "==", Value: 7}})
	resumed.waitSynced(t)
	s.Stop(t)
	s.Start(t)
	resumed.wait(t, "it goes on", func() bool { return resumed.state.Synced && c.Counts().Resumed > 0 })
	for _, where := range [][]ovsdb.Condition{{}, {{Column: "name", Function: "==", Value: "a"}}} {
		fresh := newReplica()
		with(fresh, where)
		fresh.waitSynced(t)
	}
	s.Transact(t, "Things", insert("c", object{"num": 7}))
	resumed.wait(t, "a row that comes", func() bool { return len(resumed.things) == 2 })
}

// A server that has forgotten where the rows are sends all contents, once.
func TestForgottenSendsOnce(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.StartCluster(t, 1, thingSchema)[0]
	fill(t, s)
	var c *ovsdb.Client
	var from ovsdb.Position
	ready := make(chan struct{})
	r := newReplica()
	r.onCommit = func() {
		<-ready
		from = c.Position()
	}
	c = start(t, r, nil, s.Endpoint)
	close(ready)
	r.waitSynced(t)
	r.mu.Lock()
	from.Last[0] ^= 1
	r.mu.Unlock()
	later := newReplica()
	again := start(t, later, func(cfg *ovsdb.Config) { cfg.Resume = &from }, s.Endpoint)
	later.waitSynced(t)
	if got, first := again.Counts(), c.Counts(); got.Contents != 1 || got.BytesRead > first.BytesRead*5/4 {
		t.Errorf("%+v, the first time %+v", got, first)
	}
}

// A Client resumes from the rows that its Receiver has.
func TestResumeOfAnEarlierClient(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.StartCluster(t, 1, thingSchema)[0]
	fill(t, s)
	s.Transact(t, "Things", insert("a", nil), insert("b", object{"num": 1}))
	r := newReplica()
	var last ovsdb.Position
	var c *ovsdb.Client
	ready := make(chan struct{})
	r.onCommit = func() {
		<-ready
		last = c.Position()
	}
	where := map[string][]ovsdb.Condition{"Thing": {{Column: "num", Function: "==", Value: 0}}}
	c = start(t, r, func(cfg *ovsdb.Config) { cfg.Tables[0].Where = where["Thing"] }, s.Endpoint)
	close(ready)
	r.waitSynced(t)
	r.mu.Lock()
	from := last
	r.mu.Unlock()
	if from.IsZero() || from.Last == (ovsdb.UUID{}) {
		t.Fatalf("%+v", from)
	}
	s.Transact(t, "Things", update("a", object{"map": dict([2]string{"x", "1"})}), insert("c", nil))

	for _, tt := range []struct {
		name   string
		change func(*ovsdb.Position)
		resume bool
	}{
		{"the same", func(*ovsdb.Position) {}, true},
		{"other columns", func(p *ovsdb.Position) {
			p.Columns = map[string][]string{"Thing": {"name"}, "Other": {"name"}}
		}, false},
		{"without a transaction", func(p *ovsdb.Position) { p.Last = ovsdb.UUID{} }, false},
		{"a transaction that is forgotten", func(p *ovsdb.Position) { p.Last[0] ^= 1 }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			later := newReplica()
			r.mu.Lock()
			for id, th := range r.things {
				if th.Name == "a" {
					th.Map = nil
					later.work = tables{map[ovsdb.UUID]thing{id: th}, map[ovsdb.UUID]string{}}
				}
			}
			r.mu.Unlock()
			p := from
			tt.change(&p)
			next := start(t, later, func(cfg *ovsdb.Config) {
				cfg.Tables[0].Where = where["Thing"]
				cfg.Resume = &p
			}, s.Endpoint)
			later.wait(t, "both rows", func() bool { return later.state.Synced && len(later.things) == 2 })
			if got := next.Counts(); (got.Resumed == 1) != tt.resume {
				t.Errorf("%+v", got)
			}
			for _, th := range later.things {
				if th.Name == "a" && th.Map["x"] != "1" {
					t.Errorf("%+v", th)
				}
			}
		})
	}
}
