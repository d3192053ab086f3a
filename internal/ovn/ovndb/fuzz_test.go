// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Rows of any values in any order, whether they go together or not: nothing panics,
// the connection does not end, and a snapshot can be made and asked. What refers to what,
// and what stands in which column, is taken from the input.
func FuzzRows(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c"), "a\nvm1\n10.0.0.1\n02:00:00:00:00:01 10.0.0.2\n"+uuidA)
	f.Add([]byte(strings.Repeat("\x02\x00\x01\x03", 40)), "*.x\n8.0.0.10.in-addr.arpa\ndynamic\nrouter\nlocalnet")
	f.Add([]byte(strings.Repeat("\x01\x05\x02\x00\x11\x80\x07", 60)), "hostname\nname\nlogical-switch\ndns_domain\n\xff\x00\n"+uuidB)
	f.Add([]byte(strings.Repeat("\x04\x01\x02\x03\xff\xfe", 80)), "domain_name\n\"x\"\npeer\nrouter-port\nlogical-switch\n"+uuidC)
	schemas := map[string]fuzzSchema{}
	for db, file := range map[string]string{topology.NorthboundName: "nb", topology.SouthboundName: "sb"} {
		text, err := os.ReadFile("/usr/share/ovn/ovn-" + file + ".ovsschema")
		if err != nil {
			f.Fatal(err)
		}
		var s fuzzSchema
		if err := json.Unmarshal(text, &s); err != nil {
			f.Fatal(err)
		}
		schemas[db] = s
	}
	dir, err := os.MkdirTemp("", "rows") // a name that is short enough for a socket
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { listener.Close() })
	endpoints := []string{"unix:" + filepath.Join(dir, "s")}
	known := []string{
		"name", "logical-switch", "hostname", "peer", "dns_domain", "domain_name", "router-port", "stage-name", "ovn-owned",
		ovn.TypeRouter, ovn.TypeLocalnet, "patch", "virtual", "localport", "ingress", "true", uuidA, "10.0.0.1", "02:00:00:00:00:01 10.0.0.2 fd00::2", "1.0.0.10.in-addr.arpa",
	}

	f.Fuzz(func(t *testing.T, program []byte, text string) {
		if len(program) > 1000 {
			return
		}
		for _, dbs := range [][]string{{topology.SouthboundName}, {topology.NorthboundName}, {topology.SouthboundName, topology.NorthboundName}} {
			c := Config{Monitor: All}
			if slices.Contains(dbs, topology.SouthboundName) {
				c.Southbound = endpoints
			}
			if slices.Contains(dbs, topology.NorthboundName) {
				c.Northbound = endpoints
			}
			// One half goes into the initial contents, the other into updates.
			p := &rowProgram{code: program, words: append(strings.Split(text, "\n"), known...), schemas: schemas}
			s := start(c, mustEndpoints(t, c.Southbound), mustEndpoints(t, c.Northbound), nil)
			release := s.Request(Requests{Routers: true})
			s.nameChassis(p.words[0])
			s.as("br").setPorts(p.words, 0)
			ended := make(chan error)
			for range dbs {
				conn, err := listener.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				go func() { ended <- p.serve(conn) }()
			}
			for range dbs {
				if err := <-ended; err != nil {
					t.Errorf("%v: the connection ended: %v, %+v", dbs, err, s.Status())
				}
			}
			s.mu.Lock()
			snapshot := s.build(s.snapshot.Load())
			s.mu.Unlock()
			ovn.Dump(snapshot)
			release()
			s.stop()
		}
	})
}

// fuzzSchema is a schema, as far as values are made by it.
type fuzzSchema struct {
	Tables map[string]struct {
		Columns map[string]struct{ Type fuzzType }
	}
}

type fuzzType struct {
	key, value string
	many       bool
}

func (f *fuzzType) UnmarshalJSON(b []byte) error {
	name := func(raw json.RawMessage) string {
		var plain string
		if json.Unmarshal(raw, &plain) == nil {
			return plain
		}
		var o struct{ Type string }
		_ = json.Unmarshal(raw, &o)
		return o.Type
	}
	var o struct {
		Key, Value json.RawMessage
		Max        any
	}
	if f.key = name(b); json.Unmarshal(b, &o) == nil {
		f.key, f.value = name(o.Key), name(o.Value)
		f.many = o.Max == "unlimited"
	}
	return nil
}

// rowProgram makes messages of bytes.
type rowProgram struct {
	code    []byte
	words   []string
	schemas map[string]fuzzSchema
}

// serve is a server's part of one connection, until its client has taken all.
func (p *rowProgram) serve(conn net.Conn) error {
	dec := json.NewDecoder(conn)
	code := p.code
	next := func() (b byte) {
		if len(code) > 0 {
			b, code = code[0], code[1:]
		}
		return b
	}
	for {
		var req struct {
			Method string
			Params []json.RawMessage
			ID     json.RawMessage
		}
		if err := dec.Decode(&req); err != nil {
			return err
		}
		var database string
		if len(req.Params) > 0 {
			_ = json.Unmarshal(req.Params[0], &database)
		}
		reply := `"result":{},"error":null`
		switch {
		case req.Method == "":
			return nil // the answer to our echo request: all has been taken
		case req.Method == "echo":
		case database == "_Server":
			reply = `"error":{"error":"unknown database"},"result":null`
		case req.Method == "get_schema":
			reply = `"error":null,"result":` + p.schema(database)
		case req.Method == "monitor_cond_since":
			var tables map[string][]struct{ Columns []string }
			if err := json.Unmarshal(req.Params[2], &tables); err != nil {
				return err
			}
			names := make([]string, 0, len(tables))
			for name := range tables {
				names = append(names, name)
			}
			slices.Sort(names)
			// update is one row's, in the form of a table-updates2.
			update := func(initial bool) string {
				table := names[int(next())%len(names)]
				id := p.uuid(next())
				ops := []string{"insert", "modify", "delete"}
				if initial {
					ops = []string{"initial"}
				}
				op := ops[int(next())%len(ops)]
				row := "null"
				if op != "delete" {
					row = p.row(database, table, tables[table][0].Columns, next)
				}
				return fmt.Sprintf(`{"%s":{"%s":{"%s":%s}}}`, table, id, op, row)
			}
			var out strings.Builder
			fmt.Fprintf(&out, `{"error":null,"result":[false,"%s",%s],"id":%s}`, ovsdb.UUID{}, update(true), req.ID)
			for len(code) > 0 {
				fmt.Fprintf(&out, `{"id":null,"method":"update3","params":["puntdns","%s",%s]}`, ovsdb.UUID{}, update(false))
			}
			out.WriteString(`{"method":"echo","params":[],"id":"end"}`)
			if _, err := io.WriteString(conn, out.String()); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(conn, `{%s,"id":%s}`, reply, req.ID); err != nil {
			return err
		}
	}
}

// schema has all columns, of types that are as in the true one.
func (p *rowProgram) schema(database string) string {
	tables := map[string]any{}
	for table, t := range p.schemas[database].Tables {
		columns := map[string]any{}
		for name, c := range t.Columns {
			if c.Type.key == "real" {
				continue
			}
			typ := map[string]any{"key": c.Type.key, "min": 0}
			if c.Type.value != "" {
				typ["value"] = c.Type.value
			}
			if c.Type.many {
				typ["max"] = "unlimited"
			}
			columns[name] = map[string]any{"type": typ}
		}
		tables[table] = map[string]any{"columns": columns}
	}
	b, _ := json.Marshal(map[string]any{"name": database, "tables": tables})
	return string(b)
}

// uuid is one of few, so that rows refer to each other.
func (p *rowProgram) uuid(b byte) string {
	return ovsdb.UUID{0: b % 4, 15: 1}.String()
}

func (p *rowProgram) row(database, table string, columns []string, next func() byte) string {
	values := map[string]any{}
	for _, name := range columns {
		c, ok := p.schemas[database].Tables[table].Columns[name]
		how := next()
		if !ok || how%4 == 0 {
			continue // as it is, or the default
		}
		atom := func(kind string) any {
			b := next()
			switch kind {
			case "integer":
				return []int64{0, 1, 2, -1, 4095, 1 << 16, 1 << 32, -1 << 63}[b%8]
			case "boolean":
				return b%2 == 0
			case "uuid":
				return []string{"uuid", p.uuid(b)}
			}
			return p.words[int(b)%len(p.words)]
		}
		n := int(how / 4 % 4)
		switch typ := c.Type; {
		case typ.value != "":
			pairs := [][]any{}
			for range n {
				pairs = append(pairs, []any{atom(typ.key), atom(typ.value)})
			}
			values[name] = []any{"map", pairs}
		case typ.many || n == 0:
			set := []any{}
			for range n {
				set = append(set, atom(typ.key))
			}
			values[name] = []any{"set", set}
		default:
			values[name] = atom(typ.key)
		}
	}
	b, _ := json.Marshal(values)
	return string(b)
}
