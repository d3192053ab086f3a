// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovsdb"
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
	// cut ends the connections.
	cut chan struct{}
}

const (
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

// set changes what it says to those who ask.
func (m *member) set(cid string, index int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cid, m.index = cid, index
}

// tell returns the index to one who asks.
func (m *member) tell() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = m.index
	return m.told
}

// awaitTold waits until a client has asked for the index.
func (m *member) awaitTold(t *testing.T, index int64) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		m.mu.Lock()
		told := m.told
		m.mu.Unlock()
		switch {
		case told == index:
			return
		case time.Now().After(end):
			t.Fatalf("index %d was asked for last, want %d", told, index)
		}
	}
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
		case req.Method == "monitor_cond_since":
			say(`{"id":%s,"error":"unknown method","result":null}`, req.ID)
			continue
		case req.Method == "get_schema":
			result = fakeSchema
		case req.Method == "transact":
			result = fmt.Sprintf(`[{"rows":[{"index":%d}]}]`, m.tell())
		case strings.HasPrefix(string(req.Params), `["_Server"`):
			result = fmt.Sprintf(`{"Database":{"%s":{"initial":{"name":"Things","model":"clustered","connected":true,"cid":["uuid","%s"]}}}}`, row, cid)
		case req.Method == "monitor_cond":
			result = fmt.Sprintf(`{"Thing":{"%s":{"initial":{"name":"%s"}}}}`, row, m.name)
		}
		say(`{"id":%s,"error":null,"result":%s}`, req.ID, result)
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
		r.waitDown(t, m.endpoint, "behind what was read")
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
