// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"
)

// A client shaped like ovn-controller asks for the tables, columns and conditions that
// controller/ovn-controller.c of OVN asks for, update_sb_monitors above all, and reads what comes
// without looking at it: only what it costs the server counts.

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
	// ports are those of the node, and where the conditions that were sent last.
	ports  []int
	where  map[string]string
	schema map[string][]string
	// changes has the ports after each change, for follow.
	changes chan []int
}

// follow changes the conditions, as ovn-controller does when the first port of a network comes, or the
// last one goes. Changes that come while one is outstanding are merged.
func (c *simulatedController) follow(l *cloudLayout, node int) error {
	for ports := range c.changes {
		for len(c.changes) > 0 {
			ports = <-c.changes
		}
		changed, err := c.changedConditions(l.controllerConditions(node, ports))
		if err != nil {
			return err
		}
		if len(changed) == 0 {
			continue
		}
		if _, err := c.call("monitor_cond_change", "c", "c", changed); err != nil {
			return err
		}
	}
	return nil
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

// controllerConditions are those of a node that has some ports.
func (l *cloudLayout) controllerConditions(node int, ports []int) map[string][]any {
	chassis := ref(kChassis, node)
	name := cloudNode(node)
	none := []any{"set", []any{}}
	byDatapath := map[string][]any{}
	pb := []any{
		clauseOf("type", "==", "patch"), clauseOf("type", "==", "chassisredirect"), clauseOf("type", "==", "external"),
		clauseOf("chassis", "==", chassis), clauseOf("requested_chassis", "==", chassis),
		clauseOf("options", "includes", ovsMap([2]string{"l2gateway-chassis", name})),
		clauseOf("options", "includes", ovsMap([2]string{"l3gateway-chassis", name})),
		clauseOf("options", "includes", ovsMap([2]string{"ipv6_ra_send_periodic", "true"})),
		clauseOf("parent_port", "!=", none),
	}
	switches, routers := l.ovnDatapaths(ports)
	var fdb, dns []any
	add := func(id []string, key int) {
		pb = append(pb, clauseOf("datapath", "==", id))
		byDatapath["Logical_Flow"] = append(byDatapath["Logical_Flow"], clauseOf("logical_datapath", "==", id))
		for _, table := range []string{"MAC_Binding", "Multicast_Group", "IP_Multicast", "ECMP_Nexthop", "Advertised_Route", "Advertised_MAC_Binding"} {
			byDatapath[table] = append(byDatapath[table], clauseOf("datapath", "==", id))
		}
		fdb, dns = append(fdb, clauseOf("dp_key", "==", key)), append(dns, clauseOf("datapaths", "includes", []any{"set", []any{id}}))
	}
	for _, sw := range switches {
		add(ref(kSwitch, sw), sw+1)
	}
	for _, t := range routers {
		add(ref(kRouter, t), l.switches+t+1)
	}
	byDatapath["Logical_Flow"] = append(byDatapath["Logical_Flow"], clauseOf("logical_dp_group", "!=", none))
	byDatapath["Port_Binding"], byDatapath["FDB"], byDatapath["DNS"] = pb, fdb, dns
	byDatapath["Controller_Event"] = []any{clauseOf("chassis", "==", chassis)}
	byDatapath["IGMP_Group"] = []any{clauseOf("chassis", "==", chassis)}
	byDatapath["Chassis_Private"] = []any{clauseOf("name", "==", name)}
	byDatapath["Chassis_Template_Var"] = []any{clauseOf("chassis", "==", name)}
	return byDatapath
}

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
	// took has the end of the first request of each.
	took chan error
}

// controllersProgram is the program of many clients shaped like ovn-controller. It answers
// "settle" once all have the reply to their first request. The word "cold" before the sockets has
// them ask for all contents.
func controllersProgram(args []string) error {
	return serveOrders(args, func(l *cloudLayout, numbers []int, _ string, sockets []string) (func(order) *answer, error) {
		cold := sockets[0] == "cold"
		if cold {
			sockets = sockets[1:]
		}
		schema, last, err := schemaOf(sockets[0])
		if err != nil {
			return nil, err
		}
		if cold {
			last = noTransaction
		}
		all := &simulatedControllers{byNumber: make(map[int]*simulatedController), began: time.Now(), took: make(chan error, len(numbers))}
		for i, number := range numbers {
			c, err := dialController(sockets[i%len(sockets)])
			if err != nil {
				return nil, err
			}
			all.byNumber[number] = c
			c.ports, c.schema, c.where, c.changes = slices.Clone(l.at[number]), schema, make(map[string]string), make(chan []int, 1000)
			go func() {
				where := l.controllerConditions(number, l.at[number])
				if err := c.begin(where, last); err != nil {
					all.took <- err
					return
				}
				all.took <- nil
				// An error is that of a server that has ended.
				_ = c.follow(l, number)
			}()
		}
		return all.do, nil
	})
}

// begin starts the monitors. lib/ovsdb-cs.c of Open vSwitch has one of _Server beside that of the
// database.
func (c *simulatedController) begin(where map[string][]any, last string) error {
	server := map[string]any{"Database": []any{map[string]any{"columns": []string{"name", "model", "connected", "leader", "schema", "cid", "index"}}}}
	if _, err := c.call("monitor_cond_since", "_Server", "s", server, noTransaction); err != nil {
		return err
	}
	if _, err := c.call("monitor_cond_since", "OVN_Southbound", "c", controllerRequest(c.schema, where), last); err != nil {
		return err
	}
	for table, clauses := range where {
		text, err := json.Marshal(clauses)
		if err != nil {
			return err
		}
		c.where[table] = string(text)
	}
	return nil
}

func (s *simulatedControllers) do(o order) *answer {
	c := s.byNumber[o.Node]
	switch {
	case o.Do == "plug" && c != nil:
		c.ports = append(c.ports, o.Port)
		c.changes <- slices.Clone(c.ports)
	case o.Do == "unplug" && c != nil:
		c.ports = slices.DeleteFunc(c.ports, func(p int) bool { return p == o.Port })
		c.changes <- slices.Clone(c.ports)
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
