// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A client shaped like ovn-controller asks for the tables, columns and conditions that
// controller/ovn-controller.c of OVN asks for, and reads what comes without looking at it: only
// what it costs the server counts.

// unread are columns that ovn-controller leaves out: external_ids of most tables.
var unread = map[string][]string{
	"SB_Global": {"external_ids"}, "Logical_Flow": {"external_ids"}, "Port_Binding": {"external_ids"}, "SSL": {"external_ids"},
	"Gateway_Chassis": {"external_ids"}, "HA_Chassis": {"external_ids"}, "HA_Chassis_Group": {"external_ids"}, "Chassis_Private": {"external_ids"},
	"Advertised_Route": {"external_ids"}, "Learned_Route": {"external_ids"}, "Advertised_MAC_Binding": {"external_ids"},
}

// unreadTables are those that it leaves out.
var unreadTables = []string{"Connection"}

// simulatedController is one connection.
type simulatedController struct {
	conn    net.Conn
	replied chan []byte
	schema  map[string][]string
	// where are the conditions that were sent last. They and state belong to one goroutine.
	where map[string]string
	state *controllerState
	// changes counts the requests that have changed them.
	changes *atomic.Int64

	mu     sync.Mutex // guards events and busy
	events []plugEvent
	busy   bool          // some are not yet in the conditions that the server has
	wake   chan struct{} // there are events
}

// plugEvent is an interface that comes or goes.
type plugEvent struct {
	port    int
	plugged bool
}

func (c *simulatedController) tell(e plugEvent) {
	c.mu.Lock()
	c.events, c.busy = append(c.events, e), true
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// follow changes the conditions after each event, as ovn-controller does. What changes while a request
// is outstanding is merged, as lib/ovsdb-cs.c of Open vSwitch does: ovsdb_cs_send_cond_change waits for
// the reply, which the server sends after the rows.
func (c *simulatedController) follow() error {
	for range c.wake {
		c.mu.Lock()
		events := c.events
		c.events = nil
		c.mu.Unlock()
		for _, e := range events {
			if e.plugged {
				c.state.plug(e.port)
			} else {
				c.state.unplug(e.port)
			}
		}
		for again := true; again; again = c.state.answered() {
			if err := c.update(); err != nil {
				return err
			}
		}
		c.mu.Lock()
		c.busy = len(c.events) > 0
		c.mu.Unlock()
	}
	return nil
}

func (c *simulatedController) isBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy
}

// update asks the server for the conditions, if any is another one than before.
func (c *simulatedController) update() error {
	changed, err := c.changedConditions(c.state.conditions())
	if err != nil || len(changed) == 0 {
		return err
	}
	c.changes.Add(1)
	_, err = c.call("monitor_cond_change", "c", "c", changed)
	return err
}

// changedConditions returns the requests for those that are others than before.
func (c *simulatedController) changedConditions(where map[string][]any) (map[string]any, error) {
	changed := make(map[string]any)
	for table, clauses := range where {
		text, err := json.Marshal(clauses)
		if err != nil {
			return nil, err
		}
		if c.where[table] == string(text) {
			continue
		}
		c.where[table] = string(text)
		if _, ok := c.schema[table]; ok { // else a later OVN has it
			changed[table] = []any{map[string]any{"where": clauses}}
		}
	}
	return changed, nil
}

func clauseOf(column, function string, value any) []any { return []any{column, function, value} }

// controllerRequest is the parameter of monitor_cond_since with some conditions.
func controllerRequest(schema map[string][]string, conditions map[string][]any) map[string]any {
	all := make(map[string]any)
	for table, columns := range schema {
		if slices.Contains(unreadTables, table) {
			continue
		}
		request := map[string]any{"columns": slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return slices.Contains(unread[table], c) })}
		if where, ok := conditions[table]; ok {
			request["where"] = where
		}
		all[table] = []any{request}
	}
	return all
}

// read answers echo requests, and passes on whatever else is not an update: replies.
func (c *simulatedController) read() {
	defer close(c.replied)
	var s messages
	buffer := make([]byte, 1<<16)
	for {
		n, err := c.conn.Read(buffer)
		if err != nil {
			return
		}
		for _, message := range s.add(buffer[:n]) {
			switch {
			case bytes.Contains(message, []byte(`"method":"echo"`)):
				if _, err := c.conn.Write([]byte(`{"id":"echo","result":[],"error":null}`)); err != nil {
					return
				}
			case bytes.Contains(message, []byte(`"method":`)):
			default:
				c.replied <- message
			}
		}
	}
}

// messages cuts a stream of JSON objects into these, of which it keeps both ends only: the method of
// a notification and the id of a reply stand at one of them.
type messages struct {
	head, tail     []byte
	depth          int
	quoted, escape bool
}

const messageEnd = 512

func (m *messages) add(text []byte) (whole [][]byte) {
	begin := 0
	for i, c := range text {
		switch {
		case m.escape:
			m.escape = false
		case m.quoted:
			m.escape, m.quoted = c == '\\', c != '"'
		case c == '"':
			m.quoted = true
		case c == '{':
			m.depth++
		case c == '}':
			if m.depth--; m.depth == 0 {
				m.keep(text[begin : i+1])
				whole = append(whole, slices.Concat(m.head, m.tail))
				m.head, m.tail, begin = nil, nil, i+1
			}
		}
	}
	m.keep(text[begin:])
	return whole
}

func (m *messages) keep(part []byte) {
	if room := messageEnd - len(m.head); room > 0 {
		n := min(room, len(part))
		m.head, part = append(m.head, part[:n]...), part[n:]
	}
	m.tail = append(m.tail, part[max(0, len(part)-messageEnd):]...)
	m.tail = m.tail[max(0, len(m.tail)-messageEnd):]
}

func (c *simulatedController) call(method string, params ...any) ([]byte, error) {
	if err := json.NewEncoder(c.conn).Encode(map[string]any{"method": method, "params": params, "id": 1}); err != nil {
		return nil, err
	}
	reply, ok := <-c.replied
	if !ok {
		return nil, errors.New("the server closed the connection")
	}
	if bytes.Contains(reply, []byte(`"error":{`)) {
		return nil, fmt.Errorf("%s: %.300s", method, reply)
	}
	return reply, nil
}

func dialController(socket string) (*simulatedController, error) {
	// The queue of a socket has room for 64.
	conn, err := net.Dial("unix", socket)
	for errors.Is(err, syscall.EAGAIN) {
		time.Sleep(10 * time.Millisecond)
		conn, err = net.Dial("unix", socket)
	}
	if err != nil {
		return nil, err
	}
	c := &simulatedController{conn: conn, replied: make(chan []byte, 16)}
	go c.read()
	return c, nil
}

const noTransaction = "00000000-0000-0000-0000-000000000000"

// schemaOf asks a server for the columns of its tables, and for its last transaction. That makes
// connections cheap which begin there: they have all contents so far, as ovn-controller has
// after a connection was cut.
func schemaOf(socket string) (tables map[string][]string, last string, err error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, "", err
	}
	defer conn.Close()
	w, r := json.NewEncoder(conn), json.NewDecoder(conn)
	var schema struct {
		Result struct {
			Tables map[string]struct{ Columns map[string]any }
		}
	}
	if err := errors.Join(w.Encode(map[string]any{"method": "get_schema", "params": []string{"OVN_Southbound"}, "id": 1}), r.Decode(&schema)); err != nil {
		return nil, "", err
	}
	tables = make(map[string][]string)
	for name, t := range schema.Result.Tables {
		for column := range t.Columns {
			tables[name] = append(tables[name], column)
		}
		slices.Sort(tables[name])
	}
	var since struct{ Result []any }
	params := []any{"OVN_Southbound", 1, map[string]any{"SB_Global": []any{map[string]any{"columns": []string{"nb_cfg"}}}}, noTransaction}
	if err := errors.Join(w.Encode(map[string]any{"method": "monitor_cond_since", "params": params, "id": 2}), r.Decode(&since)); err != nil {
		return nil, "", err
	}
	last, _ = since.Result[1].(string)
	return tables, last, nil
}

// simulatedControllers are those of one program.
type simulatedControllers struct {
	byNumber map[int]*simulatedController
	began    time.Time
	changes  atomic.Int64
	// took has the end of the first request of each.
	took chan error
}

// controllersProgram is the program of many clients shaped like ovn-controller. It answers
// "settle" once all have the reply to their first request. Before the sockets stand the release
// and "cold", if they are to ask for all contents, or "warm".
func controllersProgram(args []string) error {
	return serveOrders(args, func(l *cloudLayout, numbers []int, _ string, words []string) (func(order) *answer, error) {
		release, err := strconv.Atoi(words[0])
		if err != nil {
			return nil, err
		}
		cold, sockets := words[1] == "cold", words[2:]
		schema, last, err := schemaOf(sockets[0])
		if err != nil {
			return nil, err
		}
		all := &simulatedControllers{byNumber: make(map[int]*simulatedController), began: time.Now(), took: make(chan error, len(numbers))}
		for i, number := range numbers {
			c, err := dialController(sockets[i%len(sockets)])
			if err != nil {
				return nil, err
			}
			all.byNumber[number] = c
			c.schema, c.where, c.wake = schema, make(map[string]string), make(chan struct{}, 1)
			c.state, c.changes = newControllerState(l, controllerRelease(release), number), &all.changes
			go func() {
				err := c.begin(cold, last)
				all.took <- err
				if err == nil {
					// An error is that of a server that has ended.
					_ = c.follow()
				}
			}()
		}
		return all.do, nil
	})
}

// begin starts the monitors: as one that was connected until now, or as a process that has just
// started, which asks for more when it knows its chassis, and for the datapaths once the ports
// of its interfaces have come. lib/ovsdb-cs.c of Open vSwitch has a monitor of _Server beside that
// of the database.
func (c *simulatedController) begin(cold bool, last string) error {
	server := map[string]any{"Database": []any{map[string]any{"columns": []string{"name", "model", "connected", "leader", "schema", "cid", "index"}}}}
	if _, err := c.call("monitor_cond_since", "_Server", "s", server, noTransaction); err != nil {
		return err
	}
	where := c.state.conditions()
	if cold {
		c.state.forget()
		where, last = c.state.release.firstConditions(), noTransaction
	}
	if _, err := c.changedConditions(where); err != nil {
		return err
	}
	if _, err := c.call("monitor_cond_since", "OVN_Southbound", "c", controllerRequest(c.schema, where), last); err != nil {
		return err
	}
	if !cold {
		return nil
	}
	for again := true; again; again = c.state.answered() {
		if err := c.update(); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulatedControllers) do(o order) *answer {
	c := s.byNumber[o.Node]
	switch {
	case o.Do == "plug" && c != nil:
		c.tell(plugEvent{o.Port, true})
	case o.Do == "unplug" && c != nil:
		c.tell(plugEvent{o.Port, false})
	case o.Do == "changes":
		return &answer{Changes: s.changes.Load()}
	case o.Do == "caught up":
		for _, c := range s.byNumber {
			for end := time.Now().Add(patienceOfCloud); c.isBusy() && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
		}
		return &answer{}
	case o.Do == "settle":
		a := &answer{}
		for range s.byNumber {
			if err := <-s.took; err != nil {
				panic(err) // the suite ends with it
			}
			a.Seconds = append(a.Seconds, time.Since(s.began).Seconds())
		}
		return a
	}
	return nil
}
