// SPDX-License-Identifier: Apache-2.0

package saved

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"crypto/sha256"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

type File struct {
	// Saved is when the rows were last in sync, by the wall clock.
	Saved time.Time
	// Boot identifies the machine's boot. Uptime is from the boot to Saved, including suspensions.
	Boot            string
	Uptime          time.Duration
	Config, Chassis string
	Databases       []Database
}

type Database struct {
	Name       string
	Columns    map[string][]string
	Position   ovsdb.Position
	Conditions json.RawMessage `json:",omitempty"`
	// Rows are by table and UUID, for ovsdb.DecodeRow.
	Rows map[string]map[ovsdb.UUID][]byte `json:"-"`
}

const (
	magic   = "puntdns\x00"
	version = 2
	headLen = len(magic) + 4 + 8 + 8 + sha256.Size
	MaxSize = 64 << 20
)

var (
	errForeign   = errors.New("it is no saved snapshot")
	errVersion   = errors.New("it is of another version of puntdns")
	errTruncated = errors.New("it is truncated")
	errChecksum  = errors.New("its checksum is wrong")
	errRows      = errors.New("its rows can't be read")
	errTooLarge  = fmt.Errorf("it is larger than %d MiB", MaxSize>>20)
)

// Encode fails if the file exceeds MaxSize.
func Encode(f *File) ([]byte, error) {
	about, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	b := append(make([]byte, headLen), about...)
	for i := range f.Databases {
		b = appendRows(b, f.Databases[i].Rows)
	}
	if len(b) > MaxSize {
		return nil, errTooLarge
	}
	head := append(b[:0], magic...)
	head = binary.BigEndian.AppendUint32(head, version)
	head = binary.BigEndian.AppendUint64(head, uint64(len(about)))
	head = binary.BigEndian.AppendUint64(head, uint64(len(b)-headLen-len(about)))
	sum := sha256.Sum256(b[headLen:])
	copy(b[len(head):], sum[:])
	return b, nil
}

// Decode reads the bytes of a file. The rows share them.
func Decode(b []byte) (*File, error) {
	about, err := decodeHead(b, int64(len(b)))
	if err != nil {
		return nil, err
	}
	body := b[headLen:]
	if sum := sha256.Sum256(body); string(sum[:]) != string(b[headLen-sha256.Size:headLen]) {
		return nil, errChecksum
	}
	f, err := decodeAbout(body[:about])
	if err != nil {
		return nil, err
	}
	r := reader{b: body[about:]}
	for i := range f.Databases {
		f.Databases[i].Rows = r.rows(f.Databases[i].Columns)
	}
	if r.bad || len(r.b) > 0 {
		return nil, errRows
	}
	return f, nil
}

func decodeHead(b []byte, size int64) (about int, err error) {
	switch {
	case len(b) < len(magic) || string(b[:len(magic)]) != magic:
		return 0, errForeign
	case size > MaxSize:
		return 0, errTooLarge
	case len(b) < headLen:
		return 0, errTruncated
	}
	rest := b[len(magic):]
	if binary.BigEndian.Uint32(rest) != version {
		return 0, errVersion
	}
	first, second, body := binary.BigEndian.Uint64(rest[4:]), binary.BigEndian.Uint64(rest[12:]), uint64(size)-uint64(headLen)
	if first > body || second > body || first+second != body {
		return 0, errTruncated
	}
	return int(first), nil
}

func decodeAbout(b []byte) (*File, error) {
	f := new(File)
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("%w: %w", errRows, err)
	}
	return f, nil
}

// appendRows appends the number of tables; for each the name, the number of rows, and each row with its UUID
// and length. All numbers are varints.
func appendRows(b []byte, tables map[string]map[ovsdb.UUID][]byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(tables)))
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
		b = binary.AppendUvarint(b, uint64(len(tables[name])))
		for id, row := range tables[name] {
			b = append(b, id[:]...)
			b = binary.AppendUvarint(b, uint64(len(row)))
			b = append(b, row...)
		}
	}
	return b
}

type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() {
	r.b, r.bad = nil, true
}

func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > len(r.b) {
		r.fail()
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// rows decodes each row once, to find a bad row before any is used.
func (r *reader) rows(columns map[string][]string) map[string]map[ovsdb.UUID][]byte {
	tables := map[string]map[ovsdb.UUID][]byte{}
	var row ovsdb.Row
	for range r.uvarint() {
		name := string(r.bytes())
		n := r.uvarint()
		if _, twice := tables[name]; twice || columns[name] == nil {
			r.fail()
		}
		if r.bad {
			return nil
		}
		table := make(map[ovsdb.UUID][]byte, min(n, len(r.b)/len(ovsdb.UUID{})))
		tables[name] = table
		for range n {
			if len(r.b) < len(ovsdb.UUID{}) {
				r.fail()
				return nil
			}
			id := ovsdb.UUID(r.b[:len(ovsdb.UUID{})])
			r.b = r.b[len(id):]
			b := r.bytes()
			if r.bad || ovsdb.DecodeRow(b, &row, len(columns[name])) != nil {
				r.fail()
				return nil
			}
			table[id] = b
		}
	}
	return tables
}
