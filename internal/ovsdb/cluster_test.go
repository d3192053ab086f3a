// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/testkit"
)

// member is a fake server of a clustered database that has one row, named after
// what the server is. It says what its row in _Server holds.
type member struct {
	name     string
	endpoint string

	mu    sync.Mutex
	cid   string
	index int64
	told  int64 // the index that it has told last
	// history is set if it names the last transaction, and knows if it then knows each one; leader
	// if it is the leader.
	history, knows, leader bool
	// onChange is what it sends before the reply to a change of conditions. It is set before the start.
	onChange string
	// cut ends the connections.
	cut chan struct{}
}

const (
	txnA = "11111111-0000-4000-8000-000000000000"
	txnB = "22222222-0000-4000-8000-000000000000"
	cidA = "aaaaaaaa-0000-4000-8000-000000000000"
	cidB = "bbbbbbbb-0000-4000-8000-000000000000"
)

func newMember(t *testing.T, name, cid string, index int64) *member {
	m := &member{name: name, cid: cid, index: index, cut: make(chan struct{})}
	m.endpoint = fake(t, m.serve)
	return m
}

func (m *member) state() (cid string, cut chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cid, m.cut
}

// set changes the replies.
func (m *member) set(cid string, index int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cid, m.index = cid, index
}

// tell sends the index as a reply.
func (m *member) tell() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = m.index
	return m.told
}

// forget has awaitTold wait for another one who asks.
func (m *member) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = 0
}

// awaitTold waits until a client has asked for the index.
func (m *member) awaitTold(t *testing.T, index int64) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("index %d is asked for", index), func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.told == index
	})
}

// hangUp ends the connections that stand.
func (m *member) hangUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.cut)
	m.cut = make(chan struct{})
}

func (m *member) serve(conn net.Conn) {
	const row = "00112233-4455-6677-8899-aabbccddeeff"
	say := func(format string, args ...any) { fmt.Fprintf(conn, format, args...) }
	cid, cut := m.state()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-cut:
			conn.Close()
		case <-ended:
		}
	}()
	dec := json.NewDecoder(conn)
	for {
		var req request
		if dec.Decode(&req) != nil {
			return
		}
		result := `[]`
		switch {
		case req.Method == "monitor_cond_since" && m.is(&m.history) && m.is(&m.knows):
			result = fmt.Sprintf(`[true,"%s",{}]`, txnA)
		case req.Method == "monitor_cond_since":
			last := ovsdb.UUID{}.String()
			if m.is(&m.history) {
				last = txnA
			}
			result = fmt.Sprintf(`[false,"%s",{"Thing":{"%s":{"initial":{"name":"%s"}}}}]`, last, row, m.name)
		case req.Method == "get_schema":
			result = fakeSchema
		case req.Method == "transact":
			result = fmt.Sprintf(`[{"rows":[{"index":%d}]}]`, m.tell())
		case strings.HasPrefix(string(req.Params), `["_Server"`):
			result = fmt.Sprintf(`{"Database":{"%s":{"initial":{"name":"Things","model":"clustered","connected":true,"cid":["uuid","%s"],"leader":%v}}}}`, row, cid, m.is(&m.leader))
		case req.Method == "monitor_cond_change":
			say("%s", m.onChange)
		}
		say(`{"id":%s,"error":null,"result":%s}`, req.ID, result)
		if strings.Contains(result, `"initial":{"name":"first"`) && m.is(&m.history) {
			say(`{"id":null,"method":"update3","params":["puntdns","%s",{"Thing":{"%s":{"modify":{"name":"changed"}}}}]}`, txnB, row)
		}
	}
}

// is returns one of the fields of m.
func (m *member) is(field *bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *field
}

// The index that a server reports may lag behind the updates that it has sent. The client stays connected.
func TestIndexLagsBehindUpdates(t *testing.T) {
	t.Parallel()
	m := newMember(t, "first", cidA, 5)
	m.history = true
	r := newReplica()
	start(t, r, func(cfg *ovsdb.Config) {
		fakeTables(cfg)
		cfg.ProbeInterval = time.Minute
		cfg.Receiver = plain{r}
	}, m.endpoint)
	r.wait(t, "an update", func() bool {
		for _, th := range r.things {
			return r.state.Synced && th.Name == "changed"
		}
		return false
	})
	for range 2 { // the second time it has taken the first reply
		m.forget()
		m.awaitTold(t, 5)
	}
	if events := r.takeEvents(); slices.ContainsFunc(events, func(e string) bool { return strings.HasPrefix(e, "down") }) {
		t.Errorf("%q", events)
	}
}

// A server that does not know the last transaction is left while it may lack it: it has not read so
// many others that it has forgotten it, and it is not the leader.
func TestMayLack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		index         int64
		knows, leader bool
		refused       bool
	}{
		{"it is as far as the index", 5, false, false, true},
		{"it is as far by the updates", 6, false, false, true},
		{"it knows the last transaction", 6, true, false, false},
		{"it is the leader", 6, false, true, false},
		{"just before it may have forgotten", 105, false, false, true},
		{"it may have forgotten", 106, false, false, false},
		{"the leader is not as far as the updates", 5, false, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			first, second := newMember(t, "first", cidA, 5), newMember(t, "second", cidA, tt.index)
			first.history, second.history, second.knows, second.leader = true, true, tt.knows, tt.leader
			r := newReplica()
			start(t, r, func(cfg *ovsdb.Config) {
				fakeTables(cfg)
				cfg.ProbeInterval = time.Minute
				cfg.Receiver = plain{r}
			}, first.endpoint, second.endpoint)
			r.wait(t, "an update", func() bool {
				for _, th := range r.things {
					return r.state.Synced && th.Name == "changed"
				}
				return false
			})
			first.hangUp()
			if !tt.refused {
				r.wait(t, "the second", func() bool { return r.state.Synced && r.state.Endpoint == second.endpoint })
				return
			}
			r.waitEvent(t, second.endpoint, "behind what was read")
			// It has caught up.
			second.mu.Lock()
			second.knows, second.index = true, 7
			second.mu.Unlock()
			first.history = false
			first.set(cidA, 1)
			r.wait(t, "the second", func() bool { return r.state.Synced && r.state.Endpoint == second.endpoint })
		})
	}
}

// Of a cluster nothing is read that is older than what was read of it before.
func TestBehind(t *testing.T) {
	t.Parallel()
	first, second := newMember(t, "first", cidA, 5), newMember(t, "second", cidA, 5)
	r := newReplica()
	start(t, r, func(cfg *ovsdb.Config) {
		fakeTables(cfg)
		cfg.ProbeInterval = time.Minute
		cfg.Receiver = plain{r}
	}, first.endpoint, second.endpoint)
	shows := func(name string) {
		t.Helper()
		r.wait(t, name, func() bool {
			for _, th := range r.things {
				return r.state.Synced && th.Name == name
			}
			return false
		})
	}
	refused := func(m *member) {
		t.Helper()
		r.waitEvent(t, m.endpoint, "behind what was read") // the other server is asked at once
	}
	shows("first")

	// One that is as far will do.
	first.hangUp()
	shows("second")

	// What came while connected counts, as of when the server was last asked.
	second.set(cidA, 9)
	second.awaitTold(t, 9)
	first.set(cidA, 8)
	second.hangUp()
	refused(first)
	if diff := cmp.Diff([]string{"second"}, r.names()); diff != "" {
		t.Error(diff)
	}
	shows("second")

	// It catches up.
	first.set(cidA, 9)
	second.hangUp()
	shows("first")

	// A new cluster counts for itself, and the old one is not forgotten.
	second.set(cidB, 1)
	first.hangUp()
	shows("second")
	first.set(cidA, 8)
	r.takeEvents()
	second.hangUp()
	refused(first)
	shows("second")
}

// A server that says nothing from the start is left after two probes: no large
// reply is outstanding that it might be at work on.
func TestSilentFromTheStart(t *testing.T) {
	t.Parallel()
	silent := fake(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	good := newMember(t, "good", cidA, 1)
	r := newReplica()
	start(t, r, func(cfg *ovsdb.Config) {
		fakeTables(cfg)
		cfg.ReplyTimeout = time.Hour
		cfg.Receiver = plain{r}
	}, silent, good.endpoint)
	r.waitSynced(t)
}

// An update that tells of a change of conditions may name another transaction than the one before though
// none has happened: the server may have forgotten all. It is no sign that the server has read on.
func TestConditionsAreNoTransaction(t *testing.T) {
	t.Parallel()
	const row = "00112233-4455-6677-8899-aabbccddeeff"
	m := newMember(t, "other", cidA, 5)
	m.history, m.leader = true, true
	m.onChange = fmt.Sprintf(`{"id":null,"method":"update3","params":["puntdns","%s",{"Thing":{"%s":{"insert":{"name":"x"}}}}]}`, ovsdb.UUID{}, row)
	r := newReplica()
	c := start(t, r, func(cfg *ovsdb.Config) {
		fakeTables(cfg)
		cfg.Tables[0].Where = []ovsdb.Condition{}
		cfg.ProbeInterval = time.Minute
		cfg.Receiver = plain{r}
	}, m.endpoint)
	r.waitSynced(t)
	r.waitGen(t, c.SetConditions(map[string][]ovsdb.Condition{"Thing": {{Column: "name", Function: "==", Value: "x"}}}))
	r.takeEvents()
	m.hangUp()
	r.waitEvent(t, "down")
	r.waitSynced(t)
	if events := r.takeEvents(); slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, "behind") }) {
		t.Errorf("%q", events)
	}
}
