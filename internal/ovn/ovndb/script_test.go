// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/testkit"
)

// A script takes a Source through what its databases tell, without any daemon: each
// database is a server in the test that tells what the script says, when it says so.
// One command a line; "#" begins a comment.
//
//	sb insert TABLE ROW COLUMN=VALUE...   collects a row (modify, delete: likewise)
//	sb tells                              the rows collected: the initial contents of a
//	                                      new connection, or an update
//	sb tells half                         initial contents that break off, and the connection ends
//	sb breaks                             the connection ends
//	sb goes away                          so does the server, for good
//	sb holds                              conditions are not acknowledged from now on
//	sb acknowledges                       they are again, those that were held first
//	sb acknowledges once                  those that are held are, and later ones are not
//	chassis NAME / plug PORT... / network NAME|@ROW / compare NAME... / join / release
//	                                      calls of the Source; release is of the last network,
//	                                      compare or join
//	has FACT=VALUE...                     what the snapshot has when all has been taken:
//	                                      networks, guests, kept, settled, scope:NETWORK,
//	                                      scoped: whether the scopes of all guests are known;
//	                                      told: the lines of the log about networks wanted;
//	                                      logged: those about names that several have;
//	                                      ref:NAME|@ROW: the network that this refers to
//	looks up NETWORK NAME = ANSWER        see lookups
//
// ROW is any word, which stands for a UUID; "@ROW" in a value is that UUID. "~" in a
// value is a space, "," separates elements of sets and maps, ":" keys from values. As
// in update3, "modify" of a set or a map has what is to be toggled.
type script struct {
	t       *testing.T
	source  *Source
	servers map[string]*scriptServer
	release func()
	log     *testkit.Lines
}

// runScript runs a script. The databases are those that it mentions.
func runScript(t *testing.T, monitor Monitor, text string) {
	t.Helper()
	x := &script{t: t, log: new(testkit.Lines), servers: map[string]*scriptServer{}}
	c := Config{Monitor: monitor, Log: x.log}
	if strings.Contains(text, "sb ") {
		x.servers["sb"] = newScriptServer(t, topology.SouthboundName, "/usr/share/ovn/ovn-sb.ovsschema")
		c.Southbound = []string{x.servers["sb"].endpoint()}
	}
	if strings.Contains(text, "nb ") {
		x.servers["nb"] = newScriptServer(t, topology.NorthboundName, "/usr/share/ovn/ovn-nb.ovsschema")
		c.Northbound = []string{x.servers["nb"].endpoint()}
	}
	x.source = start(c, mustEndpoints(t, c.Southbound), mustEndpoints(t, c.Northbound), nil)
	t.Cleanup(x.source.stop)
	t.Cleanup(func() {
		for _, server := range x.servers {
			server.close()
		}
	})
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 0 {
			if wrong := x.run(fields); wrong != "" {
				t.Fatalf("line %d: %s: %s\n%s\n%+v", i+1, strings.TrimSpace(line), wrong, ovn.Dump(x.source.Snapshot()), x.source.Status())
			}
		}
	}
}

// run executes one line, and says what is wrong.
func (x *script) run(line []string) string {
	if server := x.servers[line[0]]; server != nil {
		if line[1] == "goes" {
			server.close()
			return ""
		}
		return server.run(line[1], line[2:])
	}
	switch args := line[1:]; line[0] {
	case "chassis":
		x.source.nameChassis(args[0])
	case "plug":
		x.source.as("br").setPorts(args, time.Minute)
	case "network":
		ref, err := ovn.ParseSwitchRef(x.label(args[0]))
		if err != nil {
			x.t.Fatal(err)
		}
		x.release = x.source.Request(Requests{Network: ref})
	case "compare":
		x.release = x.source.Request(Requests{ComparedNames: args})
	case "join":
		x.release = x.source.Request(Requests{Routers: true})
	case "release":
		x.release()
	case "has":
		x.quiesce()
		for _, fact := range args {
			name, want, _ := strings.Cut(fact, "=")
			if got := x.fact(name); got != strings.NewReplacer(",", " ", "~", " ").Replace(want) {
				return fmt.Sprintf("%s: got %q", name, got)
			}
		}
	case "looks":
		x.quiesce()
		return lookups(strings.Join(args[1:], " "))(x.source.Snapshot())
	default:
		return "no such command"
	}
	return ""
}

// label is a word of the script, or the UUID that it stands for.
func (x *script) label(word string) string {
	if label, ok := strings.CutPrefix(word, "@"); ok {
		return labelUUID(label)
	}
	return word
}

func (x *script) fact(name string) string {
	s := x.source.Snapshot()
	name, arg, _ := strings.Cut(name, ":")
	switch name {
	case "networks":
		return networks(s)
	case "guests":
		return guests(s)
	case "kept":
		retained := 0
		for p := range s.Guests() {
			if s.IsRetained(p.Name) {
				retained++
			}
		}
		return fmt.Sprint(retained)
	case "settled":
		return fmt.Sprint(s.Settled)
	case "scoped":
		return fmt.Sprint(s.HasRouterScopes())
	case "told":
		return fmt.Sprintf("%d missing %d there", x.log.Count("no logical switch "), x.log.Count("a logical switch "))
	case "logged":
		return fmt.Sprintf("%d ambiguous %d unique", x.log.Count("logical switches are named"), x.log.Count("just one logical switch")+x.log.Count("may go by that name"))
	case "ref":
		ref, err := ovn.ParseSwitchRef(x.label(arg))
		if err != nil {
			return err.Error()
		}
		n, count := s.Resolve(ref)
		if n == nil {
			return fmt.Sprintf("none of %d", count)
		}
		return n.Name
	case "scope":
		return joined(s, arg)
	}
	return "no such fact"
}

// quiesce waits until the Source has all rows that were sent, and nothing is asked for
// that is not held back. The snapshot is what follows from that.
func (x *script) quiesce() {
	x.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		for _, server := range x.servers {
			server.sync()
		}
		x.source.mu.Lock()
		x.source.notBefore = time.Time{}
		x.source.update()
		quiet := true
		for _, d := range x.source.databases {
			server := x.servers[map[string]string{topology.SouthboundName: "sb", topology.NorthboundName: "nb"}[d.status.Database]]
			quiet = quiet && !x.source.mu.writing && server.awaits(len(d.InFlight))
		}
		x.source.mu.Unlock()
		if quiet {
			return
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("conditions are not acknowledged: %+v", x.source.Status())
		}
	}
}

// scriptServer is a database that tells what a script says.
type scriptServer struct {
	t        testing.TB
	database string
	schema   *rowProgram
	listener net.Listener
	serving  sync.WaitGroup

	sending map[string]map[string]json.RawMessage // rows to be sent, by table and UUID
	synced  chan struct{}

	mu        sync.Mutex
	changed   *sync.Cond
	closed    bool
	accepted  net.Conn // nil without a connection
	conn      net.Conn // nil without one that monitors
	monitorID json.RawMessage
	began     bool // the initial contents are sent
	holds     bool
	held      []json.RawMessage
	// where has what was asked for last of each table. fills is set from when a client begins to
	// monitor until it asks for the rows of these conditions, which it does before anything else.
	where map[string]string
	fills bool
}

func newScriptServer(t testing.TB, database, file string) *scriptServer {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var schema fuzzSchema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "script") // a name that is short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := &scriptServer{
		t: t, database: database, listener: listener, synced: make(chan struct{}),
		schema:  &rowProgram{schemas: map[string]fuzzSchema{database: schema}},
		sending: map[string]map[string]json.RawMessage{}, where: map[string]string{},
	}
	if database == topology.SouthboundName {
		s.where[topology.TableFlow] = "of the stage of DNS" // from the start
	}
	s.changed = sync.NewCond(&s.mu)
	s.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.serve(conn)
		}
	})
	return s
}

// close ends the server. A Source that reads it has to be stopped, or is to try again.
func (s *scriptServer) close() {
	s.listener.Close()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.run("breaks", nil)
	s.serving.Wait()
	os.RemoveAll(filepath.Dir(s.listener.Addr().String()))
}

// awaitMonitor waits until a client waits for the initial contents, and returns what
// sends them.
func (s *scriptServer) awaitMonitor() (send func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.conn == nil {
		s.changed.Wait()
	}
	text := s.render(false)
	return func() {
		if _, err := io.WriteString(s.conn, text); err != nil {
			s.t.Error(err)
		}
	}
}

func (s *scriptServer) endpoint() string { return "unix:" + s.listener.Addr().String() }

// serve takes the requests of a connection until it ends.
func (s *scriptServer) serve(conn net.Conn) {
	defer conn.Close()
	s.mu.Lock()
	s.accepted = conn
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return
	}
	for dec := json.NewDecoder(conn); ; {
		var req struct {
			Method string
			Params []json.RawMessage
			ID     json.RawMessage
		}
		if dec.Decode(&req) != nil {
			s.mu.Lock()
			s.accepted, s.conn = nil, nil
			s.mu.Unlock()
			return
		}
		s.mu.Lock()
		reply := `"result":{},"error":null`
		switch {
		case req.Method == "":
			s.mu.Unlock()
			s.synced <- struct{}{}
			continue
		case len(req.Params) > 0 && string(req.Params[0]) == `"_Server"`:
			reply = `"error":{"error":"unknown database"},"result":null`
		case req.Method == "get_schema":
			reply = `"error":null,"result":` + s.schema.schema(s.database)
		case req.Method == "monitor_cond_since":
			s.conn, s.monitorID, s.began, s.held = conn, req.ID, false, nil
			s.fills = s.hasConditions()
			reply = ""
		case req.Method == "monitor_cond_change":
			s.note(req.Params[2])
			if s.holds && !s.fills {
				s.held = append(s.held, req.ID)
				reply = ""
			}
			s.fills = false
		}
		if reply != "" {
			fmt.Fprintf(conn, `{%s,"id":%s}`, reply, req.ID)
		}
		s.changed.Broadcast()
		s.mu.Unlock()
	}
}

// hasConditions reports whether rows of any table are asked for by conditions. mu is held.
func (s *scriptServer) hasConditions() bool {
	for _, where := range s.where {
		if where != "[true]" && where != "[false]" {
			return true
		}
	}
	return false
}

// note takes note of a change of conditions. mu is held.
func (s *scriptServer) note(change json.RawMessage) {
	var tables map[string][]struct{ Where json.RawMessage }
	if err := json.Unmarshal(change, &tables); err != nil {
		s.t.Error(err)
	}
	for table, requests := range tables {
		s.where[table] = string(requests[0].Where)
	}
}

// run executes one command, and says what is wrong.
func (s *scriptServer) run(command string, args []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch command {
	case "insert", "modify", "delete":
		row := "null"
		if command != "delete" {
			row = s.row(args[0], args[2:])
		}
		s.collect(args[0], args[1], command, row)
	case "tells":
		s.tell(len(args) > 0)
	case "breaks":
		// One that does not monitor yet waits for what nobody will tell.
		if s.accepted != nil {
			s.accepted.Close()
			s.conn = nil
		}
	case "holds":
		s.holds = true
	case "acknowledges":
		for _, id := range s.held {
			fmt.Fprintf(s.conn, `{"result":{},"error":null,"id":%s}`, id)
		}
		s.holds, s.held = len(args) > 0, nil
	default:
		return "no such command"
	}
	return ""
}

func (s *scriptServer) insert(table, label, row string) { s.collect(table, label, "insert", row) }

// collect adds a row to those to be sent.
func (s *scriptServer) collect(table, label, op, row string) {
	if s.sending[table] == nil {
		s.sending[table] = map[string]json.RawMessage{}
	}
	s.sending[table][labelUUID(label)] = json.RawMessage(fmt.Sprintf(`{%q:%s}`, op, row))
}

// tell sends the rows collected. mu is held.
func (s *scriptServer) tell(half bool) {
	for s.conn == nil {
		s.changed.Wait()
	}
	text := s.render(half)
	if _, err := io.WriteString(s.conn, text); err != nil {
		s.t.Error(err)
	}
	s.began = !half
	if half {
		s.conn.Close()
		s.conn = nil
	}
}

// render is the message with the rows collected. mu is held.
func (s *scriptServer) render(half bool) string {
	sending, err := json.Marshal(s.sending)
	if err != nil {
		s.t.Fatal(err)
	}
	s.sending = map[string]map[string]json.RawMessage{}
	if s.began {
		return fmt.Sprintf(`{"id":null,"method":"update3","params":["puntdns","%s",%s]}`, ovsdb.UUID{}, sending)
	}
	text := fmt.Sprintf(`{"error":null,"result":[false,"%s",%s],"id":%s}`, ovsdb.UUID{}, strings.ReplaceAll(string(sending), `{"insert":`, `{"initial":`), s.monitorID)
	if half {
		// The rows are sent, and the end is not.
		text = text[:strings.LastIndex(text, `}],"id"`)]
	}
	return text
}

// sync waits until the client has taken all that was sent, if there is a client.
func (s *scriptServer) sync() {
	s.mu.Lock()
	connected := s.conn != nil && s.began
	conn := s.conn
	s.mu.Unlock()
	if !connected {
		return
	}
	// Before the first answer the client has asked for the rows of its conditions, and before the
	// second it has them.
	for range 2 {
		fmt.Fprint(conn, `{"method":"echo","params":[],"id":"sync"}`)
		select {
		case <-s.synced:
		case <-time.After(patience):
			s.t.Error("the client does not answer")
			return
		}
	}
}

// awaits reports whether n changes of conditions may be outstanding for good.
func (s *scriptServer) awaits(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil || !s.began {
		return true
	}
	return n == 0 || s.holds && len(s.held) > 0
}

// row is the row of a message, by the types of its columns.
func (s *scriptServer) row(table string, columns []string) string {
	values := map[string]any{}
	for _, column := range columns {
		name, text, _ := strings.Cut(column, "=")
		typ, ok := s.schema.schemas[s.database].Tables[table].Columns[name]
		if !ok {
			s.t.Fatalf("no column %s in %s", name, table)
		}
		values[name] = scriptValue(s.t, typ.Type, strings.ReplaceAll(text, "~", " "))
	}
	b, err := json.Marshal(values)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

func scriptValue(t testing.TB, typ fuzzType, text string) any {
	atom := func(kind, text string) any {
		label, isRow := strings.CutPrefix(text, "@")
		switch {
		case kind == "uuid":
			return []string{"uuid", labelUUID(label)}
		case kind == "integer":
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return n
		case isRow:
			return labelUUID(label)
		}
		return text
	}
	elements := strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
	switch {
	case typ.value != "":
		pairs := [][]any{}
		for _, e := range elements {
			k, v, _ := strings.Cut(e, ":")
			pairs = append(pairs, []any{atom(typ.key, k), atom(typ.value, v)})
		}
		return []any{"map", pairs}
	case typ.many || text == "":
		set := []any{}
		for _, e := range elements {
			set = append(set, atom(typ.key, e))
		}
		return []any{"set", set}
	}
	return atom(typ.key, text)
}

// labelUUID is the UUID that a word stands for.
func labelUUID(label string) string {
	sum := sha1.Sum([]byte(label))
	return ovsdb.UUID(slices.Clone(sum[:16])).String()
}
