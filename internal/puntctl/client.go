// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/control/remedy"
	"github.com/puntdns/puntdns/internal/escape"
)

// askTimeout exceeds the 10 s of the process.
const askTimeout = 15 * time.Second

// maxAnswer is in bytes.
const maxAnswer = 256 << 20

type client struct {
	path     string
	http     *http.Client
	progress io.Writer
}

func newClient(path string, progress io.Writer) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &client{path: path, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, progress: progress}
}

func (c *client) get(ctx context.Context, path string, parameters url.Values, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	defer showProgress(c.progress, "asking "+c.path)()
	response, err := c.request(ctx, path, parameters)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body := io.LimitReader(response.Body, maxAnswer)
	if err := json.NewDecoder(body).Decode(answer); err != nil {
		return &exitError{status: exitNoProcess, err: fmt.Errorf("%s: puntctl can't read the answer: %w; expected a puntdns of the same version", c.path, err)}
	}
	return nil
}

// status adds remedies that an older process does not send.
func (c *client) status(ctx context.Context) (*api.Status, error) {
	s := new(api.Status)
	if err := c.get(ctx, api.PathStatus, nil, s); err != nil {
		return nil, err
	}
	remedy.FillStatus(s)
	return s, nil
}

// request returns an error for any HTTP status except 200.
func (c *client) request(ctx context.Context, path string, parameters url.Values) (*http.Response, error) {
	u := url.URL{Scheme: "http", Host: "puntdns", Path: path, RawQuery: parameters.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, &exitError{status: exitNoProcess, err: c.explain(err)}
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, c.refused(response.StatusCode, io.LimitReader(response.Body, maxAnswer))
	}
	return response, nil
}

func (c *client) refused(status int, body io.Reader) error {
	var said api.Error
	if err := json.NewDecoder(body).Decode(&said); err != nil || said.Message == "" {
		return &exitError{status: exitNoProcess, err: fmt.Errorf("%s: the answer is %d %s without a reason, so it is not from puntdns; expected %s", c.path, status, http.StatusText(status), controlSocket)}
	}
	text := escape.Line(said.Message)
	switch status {
	case http.StatusNotFound:
		return &exitError{status: exitUnwell, err: errors.New(text)}
	case http.StatusBadRequest:
		return errors.New(text)
	}
	return &exitError{status: exitNoProcess, err: fmt.Errorf("%s: %s", c.path, text)}
}

// controlSocket is the expected path in errors.
const controlSocket = "the PATH of `control unix:PATH` in the Corefile of a running puntdns"

// explain says what to do about a socket that does not answer.
func (c *client) explain(err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err // operators do not know the URL
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: there is no such socket; start puntdns with `control unix:%s` in its Corefile, or give --socket PATH", c.path, c.path)
	case errors.Is(err, syscall.ECONNREFUSED) && !isSocket(c.path):
		return fmt.Errorf("%s: not a socket; expected %s", c.path, controlSocket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: the process behind this socket has ended; start puntdns", c.path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: this user may not use the socket; run puntctl as root, or as the user of puntdns", c.path)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer within %s; puntdns is stopped or overloaded", c.path, askTimeout)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", c.path, err)
	}
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w: the process closed the connection without an answer: it is not puntdns, or it stops, or it has too many connections; expected %s", c.path, err, controlSocket)
	}
	return fmt.Errorf("%s: %w; expected %s", c.path, err, controlSocket)
}

// isSocket is true if the path can't be examined.
func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode()&fs.ModeSocket != 0
}
