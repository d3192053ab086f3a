// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/escape"
)

// maxLine is in bytes.
const maxLine = 4 << 20

var errEnded = errors.New("the stream is complete")

type stream struct {
	client *client
	body   io.ReadCloser
	lines  *bufio.Reader
}

// open requests a stream, which ends with ctx. The caller closes it.
func (c *client) open(ctx context.Context, path string, parameters url.Values) (*stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(askTimeout, func() { cancel(context.DeadlineExceeded) })
	response, err := c.request(ctx, path, parameters)
	if err != nil || !late.Stop() {
		cancel(nil)
		if err == nil {
			response.Body.Close()
		}
		if err == nil || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			err = &exitError{status: exitNoProcess, err: c.explain(context.DeadlineExceeded)}
		}
		return nil, err
	}
	return &stream{c, &cancelled{response.Body, cancel}, bufio.NewReaderSize(response.Body, 64<<10)}, nil
}

type cancelled struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (c *cancelled) Close() error {
	c.cancel(nil)
	return c.ReadCloser.Close()
}

func (s *stream) close() { s.body.Close() }

// next returns a line that is valid until the next call, io.EOF after a complete last line.
func (s *stream) next() ([]byte, error) {
	var line []byte
	for {
		part, err := s.lines.ReadSlice('\n')
		if line == nil && err == nil {
			line = part
			break
		}
		line = append(line, part...)
		switch {
		case err == nil:
		case errors.Is(err, bufio.ErrBufferFull) && len(line) < maxLine:
			continue
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil, io.EOF
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, &exitError{status: exitNoProcess, err: fmt.Errorf("%s: a line of more than %d bytes; expected fewer", s.client.path, maxLine)}
		default:
			return nil, s.failed(err)
		}
		break
	}
	if strings.HasPrefix(string(line[:min(len(line), 9)]), `{"error":`) {
		var said api.Error
		if json.Unmarshal(line, &said) == nil {
			return nil, s.failed(errors.New(escape.Line(said.Message)))
		}
	}
	return line, nil
}

// failed returns the error for a stream that ended early.
func (s *stream) failed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("puntdns closed the connection: it has stopped, or puntctl did not read for too long")
	}
	return &exitError{status: exitNoProcess, err: fmt.Errorf("%s: %w", s.client.path, err), lost: true}
}

// more reports whether next has buffered bytes.
func (s *stream) more() bool { return s.lines.Buffered() > 0 }

func (o *options) raw(w io.Writer, line []byte) error {
	if o.format == formatYAML {
		text, err := yamlOf(line)
		if err != nil {
			return err
		}
		_, err = w.Write(append([]byte("---\n"), text...))
		return err
	}
	_, err := w.Write(escape.JSON(line))
	return err
}
