// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"fmt"
	"io"
)

// Limits bound one zone, so that a feed can't take all memory of the node.
type Limits struct {
	// Records is the largest number of records, 0 for any. Records that are no rules count.
	Records int
	// Bytes is the largest size of the rules in memory, in bytes, 0 for any. A file, or the messages
	// of a transfer, may have readFactor times as many.
	Bytes int64
}

// readFactor is how much larger the text of a zone may be than its rules in memory, which have neither
// comments nor the records that are no rules.
const readFactor = 4

// ErrTooLarge is the error of a zone that is over its Limits.
var ErrTooLarge = errors.New("the zone is too large")

func (l Limits) tooManyRecords() error {
	return fmt.Errorf("%w: more than %d records, expected max_records at most", ErrTooLarge, l.Records)
}

func (l Limits) tooManyBytes() error {
	return fmt.Errorf("%w: its rules take more than %d bytes, expected max_bytes at most", ErrTooLarge, l.Bytes)
}

// Reader returns a reader of r whose error is ErrTooLarge behind the bytes that a file, or the messages
// of a transfer, may have.
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

// Read implements io.Reader.
func (r *limitedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, r.err
	}
	return n, err
}
