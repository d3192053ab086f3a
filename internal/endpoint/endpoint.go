// SPDX-License-Identifier: Apache-2.0

// Package endpoint parses, dials and opens the connection methods of Open vSwitch (ovsdb(7), "Connection
// Methods"; ovs-vsctl(8), "OpenFlow Connection Methods"), with TLS as its programs do, and has the backoff
// between retries.
//
// It starts no goroutine. A lock guards the TLS files, which are read again when they change. The only
// package-wide state is for EnsureAccess.
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

// Forms are for Parse, ActiveForms for a listening peer.
const (
	ActiveForms = "unix:PATH, tcp:HOST:PORT, ssl:HOST:PORT"
	Forms       = ActiveForms + ", ptcp:PORT[:HOST] or pssl:PORT[:HOST]"
)

// Endpoint is a comparable connection method; the zero value is not valid.
type Endpoint struct {
	Network string
	// Address is a path, else host:port; the host is empty for a listener on all addresses.
	Address string
	// TLS is set for ssl and pssl.
	TLS bool
	// Listen is set for ptcp and pssl: the peer connects.
	Listen bool
}

// Parse parses one of Forms, with IPv6 hosts in brackets, or names. A listener's port 0 lets the kernel
// choose.
func Parse(s string) (Endpoint, error) { return parse(s, Forms) }

// ParseActive parses ActiveForms, also separated by commas as in ovn-remote of ovn-controller(8). A comma at
// the edge of a word beside another word is a separator. Repetition is an error.
func ParseActive(list []string) ([]Endpoint, error) { return ParseEach(splitCommas(unjoined(list))) }

// ParseEach parses one of ActiveForms in each string. Repetition is an error.
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

// unjoined removes one comma between two words: it is no part of a path either.
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

// splitCommas splits at commas, except within a path.
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
	// SplitHostPort refuses a bare IPv6 address.
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

// String returns the form that Parse takes, with a decimal port.
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
	// The last colon separates host and port.
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

// CheckSocket returns an error if e is a unix socket without a file. With byDefault, for an endpoint not in
// the Corefile, a missing folder is no error: no daemon runs here.
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

var errNoTLS = errors.New("TLS needs a certificate, a key and a CA certificate")

// Dial calls EnsureAccess, and connects and shakes hands by the end of ctx. cfg is for TLS endpoints. Errors
// begin with the endpoint.
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

// Open listens on ptcp or pssl. The TLS handshake is at the first read or write. Errors begin with the
// endpoint.
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
