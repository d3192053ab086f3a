// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"fmt"
	"io"
)

// Limits keep a feed from taking all memory of the node.
type Limits struct {
	// Records includes records that are no rules. 0 is no limit.
	Records int
	// Bytes is the memory of the rules, 0 for no limit. A file or transfer may have readFactor times as many.
	Bytes int64
}

// readFactor allows for comments and records that are no rules.
const readFactor = 4

// ErrTooLarge is the error of a zone over its Limits.
var ErrTooLarge = errors.New("the zone is too large")

func (l Limits) tooManyRecords() error {
	return fmt.Errorf("%w: more than %d records, expected max_records at most", ErrTooLarge, l.Records)
}

func (l Limits) tooManyBytes() error {
	return fmt.Errorf("%w: its rules take more than %d bytes, expected max_bytes at most", ErrTooLarge, l.Bytes)
}

// Reader returns a reader that fails with ErrTooLarge after readFactor times Bytes.
func (l Limits) Reader(r io.Reader) io.Reader {
	if l.Bytes <= 0 {
		return r
	}
	most := readFactor * l.Bytes
	return &limitedReader{r, most, fmt.Errorf("%w: more than %d bytes, expected %d times max_bytes at most", ErrTooLarge, most, readFactor)}
}

type limitedReader struct {
	io.Reader
	left int64
	err  error
}

func (r *limitedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, r.err
	}
	return n, err
}
