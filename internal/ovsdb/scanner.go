// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// bufferSize is the part of a message in memory, besides one row.
	bufferSize = 64 << 10
	maxDepth   = 64
	maxName    = 1 << 10
)

// scanner splits JSON (RFC 8259) into tokens while the bytes arrive.
type scanner struct {
	r        io.Reader
	buf      []byte
	pos, end int
	name     []byte
}

func newScanner(r io.Reader) *scanner {
	return &scanner{r: r, buf: make([]byte, bufferSize)}
}

func (s *scanner) fill() error {
	for tries := 0; s.pos == s.end; tries++ {
		if tries == 100 {
			return io.ErrNoProgress
		}
		n, err := s.r.Read(s.buf)
		s.pos, s.end = 0, n
		if n == 0 && err != nil {
			return err
		}
	}
	return nil
}

// peek returns the next byte that is not white space. io.EOF between two messages is the regular end.
func (s *scanner) peek() (byte, error) {
	for {
		for s.pos < s.end {
			switch c := s.buf[s.pos]; c {
			case ' ', '\t', '\r', '\n':
				s.pos++
			default:
				return c, nil
			}
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
}

func (s *scanner) expect(want byte) error {
	c, err := s.peek()
	if err != nil {
		return inside(err)
	}
	if c != want {
		return unexpected(c, string(want))
	}
	s.pos++
	return nil
}

func (s *scanner) next(first bool, end byte) (bool, error) {
	c, err := s.peek()
	if err != nil {
		return false, inside(err)
	}
	if c == end {
		s.pos++
		return false, nil
	}
	if first {
		return true, nil
	}
	if c != ',' {
		return false, unexpected(c, ", or "+string(end))
	}
	s.pos++
	return true, nil
}

// The name is valid until the next one.
func (s *scanner) key() ([]byte, error) {
	name, err := s.readName()
	if err != nil {
		return nil, err
	}
	return name, s.expect(':')
}

func (s *scanner) readName() ([]byte, error) {
	var err error
	s.name, err = s.appendString(s.name[:0], maxName)
	return s.name, err
}

func (s *scanner) appendString(dst []byte, limit int) ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return dst, err
	}
	most := len(dst) + limit
	for {
		if s.pos == s.end {
			if err := s.fill(); err != nil {
				return dst, inside(err)
			}
		}
		run := s.buf[s.pos:s.end]
		n := 0
		for n < len(run) && run[n] != '"' && run[n] != '\\' && run[n] >= ' ' {
			n++
		}
		if len(dst)+n > most {
			return dst, fmt.Errorf("string of more than %d bytes", limit)
		}
		dst = append(dst, run[:n]...)
		s.pos += n
		if n == len(run) {
			continue
		}
		switch c := run[n]; c {
		case '"':
			s.pos++
			return dst, nil
		case '\\':
			s.pos++
			var err error
			if dst, err = s.appendEscape(dst); err != nil {
				return dst, err
			}
		default:
			return dst, unexpected(c, "an escape in a string")
		}
	}
}

func (s *scanner) appendEscape(dst []byte) ([]byte, error) {
	c, err := s.byte()
	if err != nil {
		return dst, err
	}
	switch c {
	case '"', '\\', '/':
		return append(dst, c), nil
	case 'b':
		return append(dst, '\b'), nil
	case 'f':
		return append(dst, '\f'), nil
	case 'n':
		return append(dst, '\n'), nil
	case 'r':
		return append(dst, '\r'), nil
	case 't':
		return append(dst, '\t'), nil
	case 'u':
	default:
		return dst, unexpected(c, "an escape")
	}
	r, err := s.hex4()
	// Half a surrogate pair becomes utf8.RuneError.
	for err == nil && utf16.IsSurrogate(r) {
		if c, err = s.byte(); err != nil {
			return dst, err
		}
		if c != '\\' {
			s.pos-- // byte has just read it from this buffer
			return utf8.AppendRune(dst, utf8.RuneError), nil
		}
		if c, err = s.byte(); err != nil {
			return dst, err
		}
		if c != 'u' {
			s.pos--
			return s.appendEscape(utf8.AppendRune(dst, utf8.RuneError))
		}
		var low rune
		if low, err = s.hex4(); err != nil {
			break
		}
		if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
			return utf8.AppendRune(dst, both), nil
		}
		dst = utf8.AppendRune(dst, utf8.RuneError)
		r = low
	}
	if err != nil {
		return dst, err
	}
	return utf8.AppendRune(dst, r), nil
}

func (s *scanner) hex4() (rune, error) {
	var r rune
	for range 4 {
		c, err := s.byte()
		if err != nil {
			return 0, err
		}
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, unexpected(c, "a hexadecimal digit")
		}
	}
	return r, nil
}

func (s *scanner) byte() (byte, error) {
	if s.pos == s.end {
		if err := s.fill(); err != nil {
			return 0, inside(err)
		}
	}
	c := s.buf[s.pos]
	s.pos++
	return c, nil
}

// scalar reads a number or a literal, valid until the next name.
func (s *scanner) scalar() ([]byte, error) {
	if _, err := s.peek(); err != nil {
		return nil, inside(err)
	}
	s.name = s.name[:0]
	for len(s.name) < maxName {
		if s.pos == s.end {
			if err := s.fill(); err != nil {
				return nil, inside(err)
			}
		}
		c := s.buf[s.pos]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E') {
			break
		}
		s.name = append(s.name, c)
		s.pos++
	}
	return s.name, nil
}

// nesting is the state between two bytes of a value.
type nesting struct {
	depth   int
	quoted  bool
	escaped bool
}

func (n *nesting) outside() bool { return n.depth == 0 && !n.quoted }

// closed is set for the end of the outermost string, array or object. step does not check that brackets
// match.
func (n *nesting) step(c byte) (closed bool, err error) {
	if n.quoted {
		n.quoted = n.escaped || c != '"'
		n.escaped = !n.escaped && c == '\\'
		return n.outside(), nil
	}
	switch c {
	case '"':
		n.quoted = true
	case '[', '{':
		if n.depth++; n.depth > maxDepth {
			return false, fmt.Errorf("value nested more than %d deep", maxDepth)
		}
	case ']', '}':
		n.depth--
		return n.depth <= 0, nil
	}
	return false, nil
}

func (s *scanner) raw(limit int) (json.RawMessage, error) {
	if _, err := s.peek(); err != nil {
		return nil, inside(err)
	}
	var text []byte
	var n nesting
	for {
		c, err := s.byte()
		if err != nil {
			return nil, err
		}
		// A number or a literal ends before the next token.
		if len(text) > 0 && n.outside() && bytes.IndexByte([]byte(",]} \t\r\n"), c) >= 0 {
			s.pos--
			break
		}
		if text = append(text, c); len(text) > limit {
			return nil, fmt.Errorf("value of more than %d bytes", limit)
		}
		closed, err := n.step(c)
		if err != nil {
			return nil, err
		}
		if closed {
			break
		}
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("%.40q is not JSON", text)
	}
	return text, nil
}

func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func unexpected(c byte, want string) error {
	return fmt.Errorf("unexpected %q, expected %s", c, want)
}
