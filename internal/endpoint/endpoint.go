// SPDX-License-Identifier: Apache-2.0

// Package endpoint parses, dials and opens the connection methods that Open
// vSwitch programs share (ovsdb(7), "Connection Methods"; ovs-vsctl(8),
// "OpenFlow Connection Methods"), with TLS as these programs do it, and the backoff
// between retries. It does not know which protocol a connection is for.
//
// It starts no goroutine. The only lock is that of the TLS files, which are read again
// when they change. Package-wide state is which sockets access was asked for (EnsureAccess).
package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Forms lists the forms that Parse accepts, and ActiveForms the forms for a peer that listens, for error
// messages and usage texts.
const (
	ActiveForms = "unix:PATH, tcp:HOST:PORT, ssl:HOST:PORT"
	Forms       = ActiveForms + ", ptcp:PORT[:HOST] or pssl:PORT[:HOST]"
)

// Endpoint is one connection method. It is comparable, and the zero value is
// not valid.
type Endpoint struct {
	// Network is "unix" or "tcp".
	Network string
	// Address is a path for "unix", else host:port as the net package takes
	// it. The host is empty for a listener on every address.
	Address string
	// TLS is set for ssl and pssl.
	TLS bool
	// Listen is set for ptcp and pssl: the peer connects.
	Listen bool
}

// Parse parses one of Forms. IPv6 hosts are in brackets; a host may be a name.
// A listener's port may be 0, for one that the kernel picks.
func Parse(s string) (Endpoint, error) { return parse(s, Forms) }

// ParseActive parses several of ActiveForms, given one by one or, as in the ovn-remote
// of ovn-controller(8), with commas between them. One that is given twice is an error. A
// comma at the edge of a word with another word beside it separates the two. ParseEach parses
// what the endpoints print.
func ParseActive(list []string) ([]Endpoint, error) { return ParseEach(splitCommas(unjoined(list))) }

// ParseEach parses several endpoints of ActiveForms, each a string: a comma is a part of it. An endpoint that
// is given twice is an error.
func ParseEach(list []string) ([]Endpoint, error) {
	var all []Endpoint
	for _, s := range list {
		e, err := parse(s, ActiveForms)
		switch {
		case err != nil:
			return nil, err
		case e.Listen:
			return nil, fmt.Errorf("endpoint %q is not active, expected an endpoint to connect to: %s", s, ActiveForms)
		case slices.Contains(all, e):
			return nil, fmt.Errorf("endpoint %q is given twice, expected once", s)
		}
		all = append(all, e)
	}
	return all, nil
}

// unjoined returns list without the commas that separate two of its words, one for each pair:
// such a comma is no part of a path either.
func unjoined(list []string) (all []string) {
	separated := true
	for i, s := range list {
		more := i < len(list)-1
		if !separated && more && s == "," {
			separated = true
			continue
		}
		if !separated {
			s = strings.TrimPrefix(s, ",")
		}
		if separated = more && strings.HasSuffix(s, ","); separated {
			s = s[:len(s)-1]
		}
		all = append(all, s)
	}
	return all
}

// splitCommas splits list at its commas, except those within a path.
func splitCommas(list []string) (all []string) {
	for _, s := range list {
		path := false
		for part := range strings.SplitSeq(s, ",") {
			method, _, _ := strings.Cut(part, ":")
			if path && !slices.Contains([]string{"unix", "tcp", "ssl", "ptcp", "pssl"}, method) {
				all[len(all)-1] += "," + part
				continue
			}
			path = method == "unix"
			all = append(all, part)
		}
	}
	return all
}

func parse(s, forms string) (Endpoint, error) {
	method, rest, ok := strings.Cut(s, ":")
	if !ok {
		return Endpoint{}, fmt.Errorf("endpoint %q: expected %s", s, forms)
	}
	e := Endpoint{Network: "tcp"}
	var err error
	switch method {
	case "unix":
		if rest == "" {
			return Endpoint{}, fmt.Errorf("endpoint %q: expected a path after the colon", s)
		}
		return Endpoint{Network: "unix", Address: rest}, nil
	case "tcp", "ssl":
		e.TLS = method == "ssl"
		e.Address, err = active(rest)
	case "ptcp", "pssl":
		e.TLS = method == "pssl"
		e.Listen = true
		e.Address, err = passive(rest)
	default:
		return Endpoint{}, fmt.Errorf("endpoint %q: unknown method %q, expected %s", s, method, forms)
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("endpoint %q: %w", s, err)
	}
	return e, nil
}

func active(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("expected HOST:PORT, an IPv6 host in [brackets]: %w", err)
	}
	if host == "" {
		return "", errors.New("expected a host before the port")
	}
	return join(host, port, 1)
}

func passive(s string) (string, error) {
	port, bracketed, ok := strings.Cut(s, ":")
	if !ok {
		return join("", port, 0)
	}
	// SplitHostPort undoes the brackets, and refuses a bare IPv6 address.
	host, _, err := net.SplitHostPort(bracketed + ":0")
	if err != nil || host == "" {
		return "", errors.New("expected PORT or PORT:HOST, an IPv6 host in [brackets]")
	}
	return join(host, port, 0)
}

func join(host, port string, lowest uint64) (string, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n < lowest {
		return "", fmt.Errorf("port %q: expected a number from %d to 65535", port, lowest)
	}
	if strings.HasPrefix(host, "//") {
		return "", errors.New("expected no // before the host")
	}
	if strings.ContainsAny(host, " \t\r\n/[]") {
		return "", fmt.Errorf("host %q: expected an address or a name", host)
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

// String implements fmt.Stringer: the form that Parse takes, with the port in plain decimal.
func (e Endpoint) String() string {
	if e.Network == "unix" {
		return "unix:" + e.Address
	}
	method := "tcp:"
	if e.TLS {
		method = "ssl:"
	}
	if !e.Listen {
		return method + e.Address
	}
	method = "p" + method
	// The last colon separates host and port, in brackets or not.
	i := strings.LastIndexByte(e.Address, ':')
	if i < 0 {
		return method + e.Address
	}
	host, port := e.Address[:i], e.Address[i+1:]
	if host == "" {
		return method + port
	}
	return method + port + ":" + host
}

// CheckSocket returns an error if e is a socket of this node and its path has no file. byDefault is set for
// an endpoint that the Corefile does not name: if its folder is missing, the daemon does not run on this
// node, and there is no error.
func (e Endpoint) CheckSocket(byDefault bool) error {
	there := func(path string) bool {
		_, err := os.Stat(path)
		return !errors.Is(err, fs.ErrNotExist)
	}
	if e.Network != "unix" || there(e.Address) || byDefault && !there(filepath.Dir(e.Address)) {
		return nil
	}
	return fmt.Errorf("%s: no such socket", e)
}

// errNoTLS is a mistake in the configuration, not of the peer.
var errNoTLS = errors.New("TLS needs a certificate, a key and a CA certificate")

// Dial calls EnsureAccess and connects, TLS handshake included, before ctx ends. Only TLS endpoints use cfg.
// Its errors begin with the endpoint; ExplainPermission makes the error about permissions.
func (e Endpoint) Dial(ctx context.Context, cfg *tls.Config) (net.Conn, error) {
	switch {
	case e.Listen:
		return nil, fmt.Errorf("%s: a listening endpoint cannot be dialled", e)
	case e.TLS && cfg == nil:
		return nil, fmt.Errorf("%s: %w", e, errNoTLS)
	}
	e.EnsureAccess(ctx)
	var conn net.Conn
	var err error
	if e.TLS {
		d := tls.Dialer{Config: cfg}
		conn, err = d.DialContext(ctx, e.Network, e.Address)
	} else {
		var d net.Dialer
		conn, err = d.DialContext(ctx, e.Network, e.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e, e.ExplainPermission(err))
	}
	return conn, nil
}

// Open listens on a ptcp or pssl endpoint. The TLS handshake of an accepted
// connection happens at its first read or write. Its errors begin with the endpoint.
func (e Endpoint) Open(ctx context.Context, cfg *tls.Config) (net.Listener, error) {
	switch {
	case !e.Listen:
		return nil, fmt.Errorf("%s: not a listening endpoint", e)
	case e.TLS && cfg == nil:
		return nil, fmt.Errorf("%s: %w", e, errNoTLS)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, e.Network, e.Address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e, err)
	}
	if e.TLS {
		l = tls.NewListener(l, cfg)
	}
	return l, nil
}
