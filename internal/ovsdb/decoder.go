// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

const (
	// A DNS row of 100,000 names takes about 10 MB.
	maxRow = 32 << 20
	// maxResult bounds a result without rows. A schema is below 100 KB.
	maxResult = 4 << 20
	// maxSmall bounds ids, errors and echo parameters.
	maxSmall = 64 << 10
)

type monitor struct {
	id     string
	tables map[string]*table
	row    func(table string, id UUID, op Op, row *Row) error
	// begin is called before the rows of a "monitor_cond_since" reply. If found is set the rows are changes,
	// otherwise all contents. begin is nil for _Server's "monitor_cond".
	begin func(found bool)
}

// message is a JSON-RPC 1.0 message without its rows.
type message struct {
	method                  string
	id, params, result, err json.RawMessage
	rows                    *monitor
	// last is the last transaction of an "update3" or a "monitor_cond_since" reply, zero from a standalone
	// server.
	last UUID
}

type decoder struct {
	*scanner
	// updates are the monitors whose "update2" or "update3" may arrive.
	updates []*monitor
	initial *monitor
	row     Row
	maxRow  int
}

// Members come in any order: rows may precede the id or the method, which the caller checks. No other result
// or parameters have the form of rows.
func (d *decoder) next() (msg message, err error) {
	if _, err := d.peek(); err != nil {
		return msg, err // io.EOF between two messages stays io.EOF
	}
	err = d.members(func(name []byte) (err error) {
		switch string(name) {
		case "method":
			var method []byte
			method, err = d.readName()
			msg.method = string(method)
		case "params":
			err = d.params(&msg)
		case "result":
			err = d.result(&msg)
		case "id":
			msg.id, err = d.raw(maxSmall)
		case "error":
			msg.err, err = d.raw(maxSmall)
		default:
			_, err = d.raw(maxSmall)
		}
		return err
	})
	return msg, err
}

func (d *decoder) members(f func(name []byte) error) error {
	if err := d.expect('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := d.scanner.next(first, '}')
		if err != nil || !more {
			return err
		}
		name, err := d.key()
		if err == nil {
			err = f(name)
		}
		if err != nil {
			return err
		}
	}
}

var errTwice = errors.New("rows twice in one message")

func (d *decoder) result(msg *message) error {
	c, err := d.peek()
	if err != nil {
		return inside(err)
	}
	switch {
	case d.initial != nil && d.initial.begin == nil && c == '{':
	case d.initial != nil && d.initial.begin != nil && c == '[':
	default:
		msg.result, err = d.raw(maxResult)
		return err
	}
	if msg.rows != nil {
		return errTwice
	}
	msg.rows = d.initial
	if c == '[' {
		return d.sinceResult(msg)
	}
	return d.tableUpdates(msg.rows)
}

// sinceResult reads "monitor_cond_since" (ovsdb-server(7)): [<found>, <last-txn-id>, <table-updates2>].
func (d *decoder) sinceResult(msg *message) error {
	if err := d.expect('['); err != nil {
		return err
	}
	if c, err := d.peek(); err == nil && c == ']' {
		// The reply to an echo request before the monitor request.
		d.pos++
		msg.rows, msg.result = nil, json.RawMessage("[]")
		return nil
	}
	text, err := d.scalar()
	if err != nil {
		return err
	}
	found := string(text) == "true"
	if !found && string(text) != "false" {
		return fmt.Errorf("%.40q is not a boolean", text)
	}
	if err := d.expect(','); err != nil {
		return err
	}
	if err := d.lastID(msg); err != nil {
		return err
	}
	msg.rows.begin(found)
	if err := d.tableUpdates(msg.rows); err != nil {
		return err
	}
	return d.expect(']')
}

func (d *decoder) lastID(msg *message) error {
	text, err := d.readName()
	if err != nil {
		return err
	}
	if msg.last, err = parseUUID(text); err != nil {
		return err
	}
	return d.expect(',')
}

func (d *decoder) params(msg *message) error {
	c, err := d.peek()
	if err != nil {
		return inside(err)
	}
	if c != '[' {
		msg.params, err = d.raw(maxSmall)
		return err
	}
	d.pos++
	// The reply to an echo request needs the text.
	all := []byte{'['}
	for first := true; ; first = false {
		more, err := d.scanner.next(first, ']')
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if m := d.monitorOf(all); m != nil && (msg.method == "" || msg.method == methodUpdate2 || msg.method == methodUpdate3) {
			return d.updateParams(msg, m)
		}
		if all, err = d.appendParam(all, first); err != nil {
			return err
		}
	}
	msg.params = append(all, ']')
	return nil
}

// updateParams reads the rows of an "update2", or the last transaction and the rows of an "update3".
func (d *decoder) updateParams(msg *message, m *monitor) error {
	if msg.rows != nil {
		return errTwice
	}
	msg.rows = m
	if m.begin != nil {
		if err := d.lastID(msg); err != nil {
			return err
		}
	}
	if err := d.tableUpdates(m); err != nil {
		return err
	}
	return d.expect(']')
}

func (d *decoder) appendParam(all []byte, first bool) ([]byte, error) {
	value, err := d.raw(maxSmall)
	if err != nil {
		return all, err
	}
	if !first {
		all = append(all, ',')
	}
	if all = append(all, value...); len(all) > maxSmall {
		return all, fmt.Errorf("parameters of more than %d bytes", maxSmall)
	}
	return all, nil
}

const (
	methodUpdate2 = "update2"
	methodUpdate3 = "update3"
)

// The id must be the only one of params so far.
func (d *decoder) monitorOf(params []byte) *monitor {
	for _, m := range d.updates {
		if string(params[1:]) == m.id {
			return m
		}
	}
	return nil
}

// tableUpdates reads <table-updates2> of ovsdb-server(7).
func (d *decoder) tableUpdates(m *monitor) error {
	return d.members(func(name []byte) error {
		t := m.tables[string(name)]
		if t == nil {
			return fmt.Errorf("rows of a table %q that was not asked for", name)
		}
		if err := d.tableUpdate(m, t); err != nil {
			return fmt.Errorf("table %q: %w", t.name, err)
		}
		return nil
	})
}

func (d *decoder) tableUpdate(m *monitor, t *table) error {
	return d.members(func(name []byte) error {
		id, err := parseUUID(name)
		if err != nil {
			return err
		}
		op, err := d.rowUpdate(t)
		if err == nil {
			err = m.row(t.name, id, op, &d.row)
		}
		if err != nil {
			return fmt.Errorf("row %s: %w", id, err)
		}
		return nil
	})
}

// rowUpdate reads <row-update2>: an object of one member.
func (d *decoder) rowUpdate(t *table) (op Op, err error) {
	if err := d.expect('{'); err != nil {
		return 0, err
	}
	name, err := d.key()
	if err != nil {
		return 0, err
	}
	d.row.reset(t.width)
	switch string(name) {
	case "initial", "insert":
		op = Insert
		err = d.columns(t, op)
	case "modify":
		op = Modify
		err = d.columns(t, op)
	case "delete":
		op = Delete
		_, err = d.raw(maxSmall)
	default:
		return 0, fmt.Errorf("unknown kind of update %q", name)
	}
	if err != nil {
		return 0, err
	}
	return op, d.expect('}')
}

func (d *decoder) columns(t *table, op Op) error {
	return d.members(func(name []byte) error {
		col, ok := t.columns[string(name)]
		if !ok {
			return fmt.Errorf("column %q was not asked for", name)
		}
		c := cell{first: uint32(len(d.row.atoms)), width: 1, present: true, diff: col.many && op == Modify}
		if col.value != kindNone {
			c.width = 2
		}
		var err error
		if c.n, err = d.value(col); err != nil {
			return fmt.Errorf("column %d: %w", col.index, err)
		}
		d.row.cells[col.index] = c
		return nil
	})
}

// value reads <value> (RFC 7047 section 5.1). n counts the elements.
func (d *decoder) value(col column) (n uint32, err error) {
	c, err := d.peek()
	if err != nil {
		return 0, inside(err)
	}
	if c != '[' {
		if col.value != kindNone {
			return 0, errors.New("expected a map")
		}
		return 1, d.atom(col.key)
	}
	d.pos++
	tag, err := d.readName()
	if err != nil {
		return 0, err
	}
	switch {
	case string(tag) == "uuid" && col.key == kindUUID && col.value == kindNone:
		return 1, d.uuid()
	case string(tag) == "set" && col.value == kindNone, string(tag) == "map" && col.value != kindNone:
		return d.elements(col)
	}
	return 0, fmt.Errorf("%.20q is not of the column's type", tag)
}

func (d *decoder) elements(col column) (n uint32, err error) {
	if err := d.expect(','); err != nil {
		return 0, err
	}
	if err := d.expect('['); err != nil {
		return 0, err
	}
	for ; ; n++ {
		more, err := d.scanner.next(n == 0, ']')
		if err != nil {
			return 0, err
		}
		if !more {
			return n, d.expect(']')
		}
		if col.value == kindNone {
			err = d.element(col.key)
		} else {
			err = d.pair(col)
		}
		if err != nil {
			return 0, err
		}
	}
}

func (d *decoder) pair(col column) error {
	if err := d.expect('['); err != nil {
		return err
	}
	if err := d.element(col.key); err != nil {
		return err
	}
	if err := d.expect(','); err != nil {
		return err
	}
	if err := d.element(col.value); err != nil {
		return err
	}
	return d.expect(']')
}

func (d *decoder) element(k kind) error {
	if k != kindUUID {
		return d.atom(k)
	}
	if err := d.expect('['); err != nil {
		return err
	}
	tag, err := d.readName()
	if err != nil {
		return err
	}
	if string(tag) != "uuid" {
		return fmt.Errorf("%.20q is not a reference", tag)
	}
	return d.uuid()
}

func (d *decoder) uuid() error {
	if err := d.expect(','); err != nil {
		return err
	}
	text, err := d.readName()
	if err != nil {
		return err
	}
	id, err := parseUUID(text)
	if err != nil {
		return err
	}
	off := len(d.row.text)
	d.row.text = append(d.row.text, id[:]...)
	if err := d.add(atom{off: uint32(off), n: uint32(len(id))}); err != nil {
		return err
	}
	return d.expect(']')
}

func (d *decoder) atom(k kind) (err error) {
	var a atom
	switch k {
	case kindString:
		off := len(d.row.text)
		if d.row.text, err = d.appendString(d.row.text, d.maxRow-off); err != nil {
			return err
		}
		a.off, a.n = uint32(off), uint32(len(d.row.text)-off)
	case kindInteger:
		text, err := d.scalar()
		if err != nil {
			return err
		}
		if a.num, err = strconv.ParseInt(string(text), 10, 64); err != nil {
			return fmt.Errorf("%.40q is not an integer", text)
		}
	case kindBoolean:
		text, err := d.scalar()
		if err != nil {
			return err
		}
		switch string(text) {
		case "true":
			a.num = 1
		case "false":
		default:
			return fmt.Errorf("%.40q is not a boolean", text)
		}
	default:
		return errors.New("expected a reference")
	}
	return d.add(a)
}

func (d *decoder) add(a atom) error {
	const atomSize = 16
	if len(d.row.text)+atomSize*len(d.row.atoms) > d.maxRow {
		return fmt.Errorf("a row of more than %d bytes", d.maxRow)
	}
	d.row.atoms = append(d.row.atoms, a)
	return nil
}
