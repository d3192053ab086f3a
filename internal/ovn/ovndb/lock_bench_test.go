// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// BenchmarkLock reports the longest time that Source.mu is held while Southbound sends 1,000
// networks of 100 ports each, the lowest of all rounds, and how long all of it takes.
func BenchmarkLock(b *testing.B) {
	for _, tt := range []struct {
		name   string
		before []int // seeds of the contents that are there, see lockRows
		seed   int
	}{
		{"first", nil, 1},
		{"same rows", []int{1}, 1},
		{"each row changed", []int{1}, 2},
	} {
		b.Run(tt.name, func(b *testing.B) {
			held, total := time.Hour, time.Hour
			for b.Loop() {
				s, send := newLockRig(b)
				for _, seed := range tt.before {
					send(lockRows(s, seed))
				}
				rows := lockRows(s, tt.seed)
				done, longest := make(chan struct{}), make(chan time.Duration)
				go func() { longest <- longestWait(s, done) }()
				begun := time.Now()
				send(rows)
				total = min(total, time.Since(begun))
				close(done)
				held = min(held, <-longest)
				if n := s.Snapshot().Stats.Ports; n != 100000 {
					b.Fatalf("%d ports", n)
				}
			}
			b.ReportMetric(float64(held.Microseconds())/1000, "ms-held")
			b.ReportMetric(float64(total.Microseconds())/1000, "ms-total")
		})
	}
}

// BenchmarkPortMemory reports what a port costs on the heap: of 1,000 networks of 100 ports each, as lockRows
// has them, without the memory of the rows that Southbound sends.
func BenchmarkPortMemory(b *testing.B) {
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the first one leaves what sync.Pool had
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		s, send := newLockRig(b)
		rows := lockRows(s, 1)
		before := live()
		send(rows)
		after := live()
		ports := s.Snapshot().Stats.Ports
		if ports != 100000 {
			b.Fatalf("%d ports", ports)
		}
		b.ReportMetric(float64(after-before)/float64(ports), "B/port")
		runtime.KeepAlive(rows)
		runtime.KeepAlive(s)
	}
}

// longestWait returns the longest wait for the lock until done is closed.
func longestWait(s *Source, done <-chan struct{}) (longest time.Duration) {
	for {
		begun := time.Now()
		s.mu.Lock()
		longest = max(longest, time.Since(begun))
		s.mu.Unlock()
		select {
		case <-done:
			return longest
		case <-time.After(100 * time.Microsecond):
		}
	}
}

// lockRow is a row of a table.
type lockRow struct {
	table string
	id    ovsdb.UUID
	row   ovsdb.Row
}

// newLockRig returns a Source without a client, and what sends it all rows.
func newLockRig(b testing.TB) (s *Source, send func([]lockRow)) {
	endpoints := mustEndpoints(b, []string{"unix:/nowhere"})
	s = newSource(Config{Southbound: []string{"unix:/nowhere"}, Monitor: All}, endpoints, nil, nil)
	s.nameChassis("hv1")
	r := &receiver{source: s, db: s.sbConn}
	return s, func(rows []lockRow) {
		s.mu.Lock()
		s.notBefore = time.Time{}
		s.mu.Unlock()
		r.Reset()
		for i := range rows {
			if err := r.Row(rows[i].table, rows[i].id, ovsdb.Insert, &rows[i].row); err != nil {
				b.Fatal(err)
			}
		}
		r.Commit()
	}
}

// lockRows are the rows of a chassis and of 1,000 networks of 100 ports each, 10 of the ports on that
// chassis. seed is in the hardware addresses.
func lockRows(s *Source, seed int) (rows []lockRow) {
	id := func(table, n int) ovsdb.UUID {
		return ovsdb.UUID{0: byte(n >> 16), 1: byte(n >> 8), 2: byte(n), 15: byte(table)}
	}
	add := func(table string, id ovsdb.UUID, values map[string]any) {
		rows = append(rows, lockRowOf(s, table, id, values))
	}
	chassis := id(1, 0)
	add(topology.TableChassis, chassis, map[string]any{"name": "hv1"})
	for n := range 1000 {
		add(topology.TableDatapath, id(2, n), map[string]any{"tunnel_key": n + 1, "external_ids": []string{"name", fmt.Sprint("s", n), "logical-switch", id(3, n).String()}})
		for i := range 100 {
			port := 100*n + i
			values := map[string]any{
				"logical_port": fmt.Sprint("port", port), "datapath": id(2, n), "tunnel_key": i + 1,
				"mac":     fmt.Sprintf("02:00:%02x:%02x:%02x:%02x 10.%d.%d.%d", seed, n>>8, n&255, i, n>>8, n&255, i),
				"options": []string{"hostname", fmt.Sprint("vm", port)},
			}
			if port%10000 == 0 {
				values["chassis"] = chassis
			}
			add(topology.TablePort, id(4, port), values)
		}
	}
	return rows
}

// lockRowOf returns a row by its values, as encodeLockRow takes them.
func lockRowOf(s *Source, table string, id ovsdb.UUID, values map[string]any) lockRow {
	row := lockRow{table: table, id: id}
	columns := rowColumns(s.sb.Tables)[table]
	if err := ovsdb.DecodeRow(encodeLockRow(columns, values), &row.row, len(columns)); err != nil {
		panic(err)
	}
	return row
}

// encodeLockRow encodes a row for ovsdb.DecodeRow: texts, UUIDs, numbers, and maps as keys and values.
func encodeLockRow(columns []string, values map[string]any) (out []byte) {
	for col, name := range columns {
		value, ok := values[name]
		if !ok {
			continue
		}
		width, texts, number := 1, []string{""}, 0
		switch v := value.(type) {
		case string:
			texts[0] = v
		case ovsdb.UUID:
			texts[0] = string(v[:])
		case int:
			number = v
		case []string:
			width, texts = 2, v
		}
		out = binary.AppendUvarint(out, uint64(col)+1)
		out = binary.AppendUvarint(out, uint64(width))
		out = binary.AppendUvarint(out, uint64(len(texts)/width))
		for _, text := range texts {
			out = binary.AppendUvarint(out, uint64(len(text)))
			out = append(out, text...)
			out = binary.AppendVarint(out, int64(number))
		}
	}
	return slices.Concat(out, []byte{0})
}
