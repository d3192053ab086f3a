// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// fake listens where serve has each connection, until the test's end.
func fake(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		l.Close()
		cancel()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			wg.Go(func() {
				defer stop()
				defer conn.Close()
				serve(conn)
			})
		}
	})
	return "unix:" + path
}

type request struct {
	Method string
	Params json.RawMessage
	ID     json.RawMessage
}

const fakeSchema = `{"name":"Things","tables":{"Thing":{"columns":{"name":{"type":"string"},"map":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}}}}}}`

// script answers requests by answer, which gives the members of a reply, or ""
// for none; requests to _Server are refused as by an old server.
func script(answer func(req request, n int) string) func(net.Conn) {
	return func(conn net.Conn) {
		dec := json.NewDecoder(conn)
		for n := 0; ; n++ {
			var req request
			if dec.Decode(&req) != nil {
				return
			}
			var reply string
			var params []json.RawMessage
			_ = json.Unmarshal(req.Params, &params)
			switch {
			case req.Method == "monitor_cond" && string(params[0]) == `"_Server"`:
				reply = `"error":{"error":"unknown database"},"result":null`
			case req.Method == "get_schema":
				reply = `"result":` + fakeSchema + `,"error":null`
			default:
				reply = answer(req, n)
			}
			if reply != "" {
				fmt.Fprintf(conn, `{%s,"id":%s}`, reply, req.ID)
			}
		}
	}
}

// noTxn is the last transaction that a standalone server names.
const noTxn = "00000000-0000-0000-0000-000000000000"

// contents is the reply to monitor_cond_since with rows, of a standalone server.
func contents(rows string) string {
	return `"error":null,"result":[false,"` + noTxn + `",` + rows + `]`
}

// empty is an answer of script: the database has no rows, and all requests succeed.
func empty(req request, _ int) string {
	if req.Method == "monitor_cond_since" {
		return contents("{}")
	}
	return `"result":{},"error":null`
}

func fakeTables(cfg *ovsdb.Config) {
	cfg.Tables = []ovsdb.TableRequest{{Table: "Thing", Columns: []string{"name"}, Optional: []string{"map"}}}
	cfg.ProbeInterval, cfg.ReplyTimeout = 100*time.Millisecond, time.Second
}

// plain takes rows in whatever the columns.
type plain struct{ *replica }

func (p plain) Row(_ string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.work.things[id] = thing{Name: row.String(0), Map: patchMap(row, 1, p.work.things[id].Map)}
	return nil
}

func TestBadServers(t *testing.T) {
	const id = "00112233-4455-6677-8899-aabbccddeeff"
	initial := func(rows string) func(request, int) string {
		return func(req request, _ int) string {
			if req.Method != "monitor_cond_since" {
				return `"result":[],"error":null`
			}
			return rows
		}
	}
	thing := func(row string) string {
		return contents(`{"Thing":{"` + id + `":` + row + `}}`)
	}
	for _, tt := range []struct {
		name  string
		serve func(net.Conn)
		want  string
	}{
		{"silent", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, "silent"},
		{"hangs up", func(net.Conn) {}, ""},
		{"hangs up in a reply", func(c net.Conn) { io.WriteString(c, `{"id":1,"resu`) }, ""},
		{"speaks something else", func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); io.Copy(io.Discard, c) }, "unexpected 'H'"},
		{"old", script(initial(`"error":"unknown method","result":null`)), `monitor_cond_since: the server answers "unknown method" (Open vSwitch 2.12 or later`},
		{"refuses", script(initial(`"error":{"error":"not allowed","details":"go away"},"result":null`)), `"not allowed": go away`},
		{"no rows", script(initial(`"error":null,"result":[]`)), "has no rows"},
		{"no array", script(initial(`"error":null,"result":{}`)), "has no rows"},
		{"wrong id", func(c net.Conn) { io.WriteString(c, `{"id":17,"result":{},"error":null}`); io.Copy(io.Discard, c) }, "not under way"},
		{"table not asked for", script(initial(contents(`{"Other":{}}`))), `"Other"`},
		{"column not asked for", script(initial(thing(`{"initial":{"nome":"x"}}`))), `"nome"`},
		{"wrong type", script(initial(thing(`{"initial":{"name":5}}`))), `expected "`},
		{"map for a string", script(initial(thing(`{"initial":{"name":["map",[]]}}`))), "not of the column's type"},
		{"string for a map", script(initial(thing(`{"initial":{"map":"x"}}`))), "expected a map"},
		{"unknown kind", script(initial(thing(`{"new":{"name":"x"}}`))), `"new"`},
		{"no UUID", script(initial(contents(`{"Thing":{"x":{"initial":{}}}}`))), "not a UUID"},
		{"update before the reply", script(func(req request, _ int) string {
			return `"method":"update3","params":["puntdns","` + noTxn + `",{}]`
		}), "before the initial contents"},
		{"monitor ended", script(func(req request, _ int) string {
			if req.Method == "monitor_cond_since" {
				return contents("{}") + `,"x":[{"y":[1,-2.5e3,null,true,"\"\\"]}],"id":` + string(req.ID) +
					`}{"method":"monitor_canceled","params":["puntdns"]`
			}
			return ""
		}), "ended the monitor"},
		{"deep", script(func(request, int) string {
			return `"error":` + deep(100)
		}), "deep"},
		{"endless error", func(c net.Conn) {
			io.WriteString(c, `{"error":"`)
			for junk := make([]byte, 4096); ; {
				for i := range junk {
					junk[i] = 'a'
				}
				if _, err := c.Write(junk); err != nil {
					return
				}
			}
		}, "value of more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newReplica()
			start(t, r, func(cfg *ovsdb.Config) {
				fakeTables(cfg)
				cfg.Receiver = plain{r}
			}, fake(t, tt.serve))
			r.waitDown(t, tt.want)
		})
	}
}

func deep(n int) string {
	var b []byte
	for range n {
		b = append(b, '[')
	}
	for range n {
		b = append(b, ']')
	}
	return string(b)
}

// The members of a message may come in any order, with any white space.
func TestOrderOfMembers(t *testing.T) {
	const id = "00112233-4455-6677-8899-aabbccddeeff"
	r := newReplica()
	start(t, r, func(cfg *ovsdb.Config) {
		fakeTables(cfg)
		cfg.Receiver = plain{r}
	}, fake(t, script(func(req request, _ int) string {
		if req.Method != "monitor_cond_since" {
			return `"result":[],"error":null`
		}
		return `"result" : [ false , "` + noTxn + `" , {"Thing":{"` + id + `":{"initial":{"name":"a","map":["map",[["k","v"]]]}}}} ] , "error":null,"id":` + string(req.ID) + `}
			{"params":["puntdns" , "` + noTxn + `",{"Thing":{"` + id + `":{"modify":{"map":["map",[["l","w"],["k","v"]]], "name":"b"}}}}],"method":"update3","id":null}
			{"jsonrpc":"ignored","id":null,"method":"locked","params":["x",{}]`
	})))
	r.wait(t, "both", func() bool {
		for _, th := range r.things {
			return th.Name == "b" && len(th.Map) == 1 && th.Map["l"] == "w"
		}
		return false
	})
}

// A busy server answers the echo request of a client that waits for the schema after the schema, when
// the client waits for rows.
func TestEchoBeforeContents(t *testing.T) {
	t.Parallel()
	r := newReplica()
	start(t, r, func(cfg *ovsdb.Config) {
		fakeTables(cfg)
		cfg.Receiver = plain{r}
	}, fake(t, func(conn net.Conn) {
		dec := json.NewDecoder(conn)
		for schema := ""; ; {
			var req request
			if dec.Decode(&req) != nil {
				return
			}
			reply := empty(req, 0)
			switch {
			case req.Method == "monitor_cond":
				reply = `"error":{"error":"unknown database"},"result":null`
			case req.Method == "get_schema":
				schema = string(req.ID) // the reply waits for the echo request
				continue
			case req.Method == "echo" && schema != "":
				fmt.Fprintf(conn, `{"id":%s,"result":%s,"error":null}`, schema, fakeSchema)
				schema, reply = "", `"result":[],"error":null`
			}
			fmt.Fprintf(conn, `{%s,"id":%s}`, reply, req.ID)
		}
	}))
	r.waitSynced(t)
	if events := r.takeEvents(); slices.ContainsFunc(events, func(e string) bool { return strings.HasPrefix(e, "down") }) {
		t.Errorf("%q", events)
	}
}

// Requests for an echo are answered with their parameters.
func TestEcho(t *testing.T) {
	type reply struct{ got, want string }
	answers := make(chan reply, 100)
	r := newReplica()
	start(t, r, fakeTables, fake(t, func(c net.Conn) {
		dec := json.NewDecoder(c)
		var first request
		if dec.Decode(&first) != nil {
			return
		}
		for _, e := range []struct{ params, id, result string }{
			{`[]`, `"echo"`, `[]`},
			{` [ 1 , {"a" :[ ]}, "x\"y" ]`, `7`, `[1,{"a":[]},"x\"y"]`},
			{`["puntdns"]`, `null`, `["puntdns"]`},
			{`{"a":1}`, `[1]`, `{"a":1}`},
		} {
			fmt.Fprintf(c, `{"method":"echo","params":%s,"id":%s}`, e.params, e.id)
			var got struct {
				Method        string
				Result, Error json.RawMessage
				ID            json.RawMessage
			}
			for {
				if dec.Decode(&got) != nil {
					return
				}
				if got.Method == "" { // else a probe
					break
				}
				got.Method = ""
			}
			compact := func(raw json.RawMessage) string {
				var v any
				_ = json.Unmarshal(raw, &v)
				b, _ := json.Marshal(v)
				return string(b)
			}
			select {
			case answers <- reply{compact(got.ID) + compact(got.Result), compact(json.RawMessage(e.id)) + e.result}:
			default:
			}
		}
	}))
	for range 4 {
		select {
		case a := <-answers:
			if a.got != a.want {
				t.Errorf("got %s, want %s", a.got, a.want)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("no answer")
		}
	}
}

func TestRunNeedsConfig(t *testing.T) {
	if err := ovsdb.New(ovsdb.Config{}).Run(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestUUID(t *testing.T) {
	const text = "00112233-4455-6677-8899-aabbccddeeff"
	id, err := ovsdb.ParseUUID(text)
	if err != nil || id.String() != text || id[15] != 0xff {
		t.Errorf("%v, %v", id, err)
	}
	for _, s := range []string{"", text[1:], text + "0", "00112233x4455-6677-8899-aabbccddeeff", "0011223g-4455-6677-8899-aabbccddeeff"} {
		if _, err := ovsdb.ParseUUID(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}
