// SPDX-License-Identifier: Apache-2.0

package addnhosts

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Limits of a file. 65,536 ports with two addresses each need some 10 MB.
const (
	maxFile      = 32 << 20 // bytes
	maxLine      = 4 << 10  // bytes
	maxLineNames = 16
)

var (
	errLongLine = fmt.Errorf("it is longer than %d bytes", maxLine)
	errLongFile = fmt.Errorf("the file is longer than %d bytes: what follows is not read", maxFile)
	errNoName   = errors.New("expected names after the address")
	errNames    = fmt.Errorf("it has more than %d names", maxLineNames)
)

// lines' callbacks must not keep the bytes.
type lines struct {
	// host gets at least one valid name, as of names.Canonical.
	host func(a netip.Addr, hostnames []string) error
	// bad gets a skipped line or name. Lines count from 1.
	bad func(line int, text []byte, err error)
}

// parse reads hosts(5) as dnsmasq(8) does.
func parse(r io.Reader, l lines) error {
	limited := &io.LimitedReader{R: r, N: maxFile}
	b := bufio.NewReaderSize(limited, maxLine)
	var hostnames []string
	for number := 1; ; number++ {
		text, err := b.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			l.bad(number, text[:80], errLongLine)
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = b.ReadSlice('\n')
			}
			text = nil
		}
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		if end && limited.N == 0 {
			// The last line may be incomplete.
			l.bad(number, nil, errLongFile)
			return nil
		}
		hostnames = parseLine(number, text, hostnames[:0], l)
		if end {
			return nil
		}
	}
}

func parseLine(number int, text []byte, hostnames []string, l lines) []string {
	text, _, _ = bytes.Cut(text, []byte{'#'})
	fields := bytes.Fields(text)
	if len(fields) == 0 {
		return hostnames
	}
	a, err := names.ParseAddress(string(fields[0]))
	switch {
	case err != nil:
		l.bad(number, fields[0], err)
		return hostnames
	case len(fields) == 1:
		l.bad(number, fields[0], errNoName)
		return hostnames
	case len(fields) > 1+maxLineNames:
		l.bad(number, fields[0], errNames)
		return hostnames
	}
	for _, f := range fields[1:] {
		n, err := names.Canonical(string(f))
		if err != nil {
			l.bad(number, f, err)
			continue
		}
		hostnames = append(hostnames, n)
	}
	if len(hostnames) == 0 {
		return hostnames
	}
	if err := l.host(a, hostnames); err != nil {
		l.bad(number, fields[0], err)
	}
	return hostnames
}
