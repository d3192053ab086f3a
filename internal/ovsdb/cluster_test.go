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

	mu      sync.Mutex
	cid     string
	index   int64
	changed chan struct{} // closed when index is another
	// cut ends the connections.
	cut chan struct{}
}

const (
	cidA = "aaaaaaaa-0000-4000-8000-000000000000"
	cidB = "bbbbbbbb-0000-4000-8000-000000000000"
)

func newMember(t *testing.T, name, cid string, index int64) *member {
	m := &member{name: name, cid: cid, index: index, changed: make(chan struct{}), cut: make(chan struct{})}
	m.endpoint = fake(t, m.serve)
	return m
}

func (m *member) state() (index int64, cid string, changed, cut chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index, m.cid, m.changed, m.cut
}

// set changes what it says, to those who are connected too.
func (m *member) set(cid string, index int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cid, m.index = cid, index
	close(m.changed)
	m.changed = make(chan struct{})
}

// hangUp ends the connections that stand, after the last word.
func (m *member) hangUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.cut)
	m.cut = make(chan struct{})
}

func (m *member) serve(conn net.Conn) {
	const row = "00112233-4455-6677-8899-aabbccddeeff"
	var writing sync.Mutex
	say := func(format string, args ...any) {
		writing.Lock()
		defer writing.Unlock()
		fmt.Fprintf(conn, format, args...)
	}
	index, cid, changed, cut := m.state()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for hungUp := false; !hungUp; {
			select {
			case <-changed:
			case <-cut:
				hungUp = true
			case <-ended:
				return
			}
			index, _, changed, _ = m.state()
			say(`{"method":"update2","id":null,"params":["puntdns-server",{"Database":{"%s":{"modify":{"index":%d}}}}]}`, row, index)
		}
		conn.Close()
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
		case strings.HasPrefix(string(req.Params), `["_Server"`):
			result = fmt.Sprintf(`{"Database":{"%s":{"initial":{"name":"Things","model":"clustered","connected":true,"cid":["uuid","%s"],"index":%d}}}}`, row, cid, index)
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

	// What came while connected counts.
	second.set(cidA, 9)
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
