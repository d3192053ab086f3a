// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for.
const patience = time.Minute

// quiet is a Logger that records its lines.
type quiet struct{ t *testing.T }

func (q quiet) Infof(format string, args ...any)    { q.t.Logf(format, args...) }
func (q quiet) Warningf(format string, args ...any) { q.t.Logf(format, args...) }

// rig is a server with a socket.
type rig struct {
	*Server
	t    *testing.T
	path string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{New(), t, filepath.Join(t.TempDir(), "control.sock")}
	r.Answer("/v1/echo", func(_ context.Context, p url.Values) (any, error) {
		switch word := p.Get("word"); word {
		case "missing":
			return nil, NotFound("there is no %s", word)
		case "broken":
			return nil, errors.New("broken")
		default:
			return map[string]string{"word": word}, nil
		}
	})
	return r
}

func (r *rig) open() {
	r.t.Helper()
	if err := r.Use(r.path, false, quiet{r.t}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = r.Use("", false, quiet{r.t}) })
}

func (r *rig) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("unix", r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// get sends one request on a new connection.
func (r *rig) get(path string) (status int, body string) {
	r.t.Helper()
	status, body, err := getAt(r.path, path)
	if err != nil {
		r.t.Fatalf("%s: %v", path, err)
	}
	return status, body
}

func getAt(socket, path string) (status int, body string, err error) {
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	response, err := (&http.Client{Transport: tr, Timeout: patience}).Get("http://puntdns" + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func TestAnswers(t *testing.T) {
	r := newRig(t)
	r.AddStatus(func(_ context.Context, to *api.Status) {
		to.Problems = append(to.Problems, api.Problem{Code: "code", About: "this", Text: "that"})
	})
	r.open()
	for _, tc := range []struct {
		path   string
		status int
		want   string
	}{
		{"/v1/echo?word=a%20b", 200, `{"word":"a b"}`},
		{"/v1/echo?word=missing", 404, `{"error":"there is no missing"}`},
		{"/v1/echo?word=broken", 500, `{"error":"broken"}`},
		{"/nowhere", 404, `{"error":"\"/nowhere\": `},
	} {
		if status, body := r.get(tc.path); status != tc.status || !strings.HasPrefix(body, tc.want) {
			t.Errorf("%s: %d %s, want %d %s", tc.path, status, body, tc.status, tc.want)
		}
	}
	var s api.Status
	if _, body := r.get(api.PathStatus); json.Unmarshal([]byte(body), &s) != nil || s.Well || len(s.Problems) != 1 || s.Process.PID != os.Getpid() {
		t.Errorf("%+v", s)
	}
}

// The cause of a problem stands before the problem, in whatever order the packages report them.
func TestOrderOfProblems(t *testing.T) {
	r := newRig(t)
	for _, codes := range [][]string{{api.CodeNotServed, api.CodeUnserved}, {api.CodeDatabase}, {api.CodeSwitch, api.CodeBinding}} {
		r.AddStatus(func(_ context.Context, to *api.Status) {
			for _, code := range codes {
				to.Problems = append(to.Problems, api.Problem{Code: code})
			}
		})
	}
	r.open()
	var s api.Status
	if _, body := r.get(api.PathStatus); json.Unmarshal([]byte(body), &s) != nil {
		t.Fatalf("%q", body)
	}
	var got []string
	for _, p := range s.Problems {
		got = append(got, p.Code)
		if p.Docs == "" {
			t.Errorf("%s: the remedy was not looked up: %+v", p.Code, p)
		}
	}
	if want := []string{api.CodeSwitch, api.CodeDatabase, api.CodeNotServed, api.CodeBinding, api.CodeUnserved}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMethods(t *testing.T) {
	r := newRig(t)
	r.open()
	c := r.dial()
	fmt.Fprintf(c, "POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%v", response)
	}
}

// Whatever comes, the next one is answered.
func TestGarbage(t *testing.T) {
	r := newRig(t)
	r.open()
	for _, tc := range []struct{ name, text, want string }{
		{"bytes", "\x00\xff\x16\x03\x01garbage\r\n\r\n", "400"},
		{"no HTTP", "hello\r\n\r\n", "400"},
		{"a long header", "GET /v1/echo HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "431"},
		{"a long path", "GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", "431"},
		{"another protocol", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := r.dial()
			_, _ = io.WriteString(c, tc.text) // the server may have hung up before it is through
			got, _ := io.ReadAll(c)
			if !strings.Contains(string(got), tc.want) {
				t.Errorf("%q, want %s", got, tc.want)
			}
			if status, _ := r.get("/v1/echo?word=x"); status != 200 {
				t.Errorf("then %d", status)
			}
		})
	}
}

// A client that sends nothing, or reads nothing, is cut off.
func TestSlowClients(t *testing.T) {
	r := newRig(t)
	r.timeouts = timeouts{header: 50 * time.Millisecond, idle: 50 * time.Millisecond, answer: time.Second, write: 50 * time.Millisecond}
	cut := make(chan error, 1)
	r.Stream("/v1/flood", func(ctx context.Context, _ url.Values, send func(...any) error) error {
		line := strings.Repeat("x", 64<<10)
		for {
			if err := send(line); err != nil {
				select {
				case cut <- err:
				default:
				}
				return err
			}
		}
	})
	r.open()
	silent, half := r.dial(), r.dial()
	_, _ = io.WriteString(half, "GET /v1/ec")
	for name, c := range map[string]net.Conn{"silent": silent, "half a request": half} {
		if _, err := io.ReadAll(c); err != nil {
			t.Errorf("%s: %v, want the end of the connection", name, err)
		}
	}
	testkit.Eventually(t, "who reads nothing is cut off", func() bool {
		// A busy machine may take longer for the request than timeouts.header: then the next one counts.
		_, _ = io.WriteString(r.dial(), "GET /v1/flood HTTP/1.1\r\nHost: x\r\n\r\n")
		select {
		case err := <-cut:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%v", err)
			}
			return true
		case <-time.After(time.Second):
			return false
		}
	})
}

// Connections over the bound get an error, and new connections succeed when some end.
func TestManyConnections(t *testing.T) {
	r := newRig(t)
	r.timeouts.header = time.Hour // they stay open on a machine that stalls, too
	r.open()
	var open []net.Conn
	for range maxConnections {
		open = append(open, r.dial())
	}
	status, body := 0, ""
	testkit.Eventually(t, "a refusal", func() bool { status, body = r.get("/v1/echo"); return status == http.StatusServiceUnavailable })
	if !strings.Contains(body, fmt.Sprint(maxConnections)) {
		t.Errorf("%d %s", status, body)
	}
	// Connections still further over the bound are closed without an answer.
	for range 1000 {
		if c, err := net.Dial("unix", r.path); err == nil {
			open = append(open, c)
		}
	}
	for _, c := range open {
		c.Close()
	}
	testkit.Eventually(t, "room", func() bool {
		status, _, err := getAt(r.path, "/v1/echo")
		return err == nil && status == 200
	})
}

// Two answers are made at once; a third waits for one of them.
func TestAnswersAtOnce(t *testing.T) {
	r := newRig(t)
	begun, end := make(chan struct{}, maxAnswers+1), make(chan struct{})
	r.Answer("/v1/long", func(context.Context, url.Values) (any, error) {
		begun <- struct{}{}
		<-end
		return true, nil
	})
	r.open()
	answers := make(chan int, maxAnswers)
	for range maxAnswers {
		go func() {
			status, _, _ := getAt(r.path, "/v1/long")
			answers <- status
		}()
	}
	for range maxAnswers {
		<-begun
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.makeAnswer(ctx, func(context.Context, url.Values) (any, error) { return true, nil }, nil); err == nil {
		t.Error("a third answer is made at once")
	}
	close(end)
	for range maxAnswers {
		if status := <-answers; status != 200 {
			t.Errorf("%d", status)
		}
	}
}

// A stream reports that it has begun, sends lines as they come, and reports why it ends with the socket.
func TestStream(t *testing.T) {
	r := newRig(t)
	numbers, ended := make(chan []any), make(chan struct{})
	r.Stream("/v1/numbers", func(ctx context.Context, _ url.Values, send func(...any) error) error {
		defer close(ended)
		if err := send(); err != nil {
			return err
		}
		for {
			select {
			case n := <-numbers:
				if err := send(n...); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	r.open()
	c := r.dial()
	_, _ = io.WriteString(c, "GET /v1/numbers HTTP/1.1\r\nHost: x\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%v", response)
	}
	numbers <- []any{7, "<8>"}
	lines := bufio.NewReader(response.Body)
	for _, want := range []string{"7\n", "\"<8>\"\n"} {
		if line, err := lines.ReadString('\n'); err != nil || line != want {
			t.Errorf("%q, %v, want %q", line, err, want)
		}
	}
	if err := r.Use("", false, quiet{t}); err != nil {
		t.Error(err)
	}
	// The connection is closed behind that, be the end of the stream written or not.
	if rest, _ := io.ReadAll(lines); !strings.HasPrefix(string(rest), `{"error":"`+ErrClosed.Error()) {
		t.Errorf("%q, want why it ends", rest)
	}
	<-ended
}

// A stream that ends with an error says so: as the answer if nothing was sent, else as the last line.
func TestStreamError(t *testing.T) {
	r := newRig(t)
	r.Stream("/v1/failing", func(_ context.Context, p url.Values, send func(...any) error) error {
		if p.Has("late") {
			_ = send(1)
		}
		return NotFound("there is none")
	})
	r.open()
	for path, want := range map[string]string{
		"/v1/failing":      `404 {"error":"there is none"}` + "\n",
		"/v1/failing?late": "200 1\n" + `{"error":"there is none"}` + "\n",
	} {
		if status, body := r.get(path); fmt.Sprint(status, " ", body) != want {
			t.Errorf("%s: %d %q, want %q", path, status, body, want)
		}
	}
}

// A client that does not read its stream does not keep the socket open.
func TestStreamUnreadAtEnd(t *testing.T) {
	r := newRig(t)
	full, cut := make(chan struct{}), make(chan error, 1)
	r.Stream("/v1/flood", func(_ context.Context, _ url.Values, send func(...any) error) error {
		line := strings.Repeat("x", 64<<10)
		for i := 0; ; i++ {
			if i == 1 {
				close(full) // or soon
			}
			if err := send(line); err != nil {
				cut <- err
				return err
			}
		}
	})
	r.open()
	_, _ = io.WriteString(r.dial(), "GET /v1/flood HTTP/1.1\r\nHost: x\r\n\r\n")
	<-full
	if err := r.Use("", false, quiet{t}); err != nil {
		t.Error(err)
	}
	<-cut
}

// A client that goes ends its stream.
func TestStreamOfClientThatGoes(t *testing.T) {
	r := newRig(t)
	ended := make(chan error, 1)
	r.Stream("/v1/silent", func(ctx context.Context, _ url.Values, send func(...any) error) error {
		_ = send()
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	})
	r.open()
	c := r.dial()
	_, _ = io.WriteString(c, "GET /v1/silent HTTP/1.1\r\nHost: x\r\n\r\n")
	_, _ = c.Read(make([]byte, 100))
	c.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte("GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add([]byte("GET /v1/echo?word=%zz HTTP/1.0\r\n\r\n"))
	s := New()
	s.Answer("/v1/echo", func(_ context.Context, p url.Values) (any, error) { return p, nil })
	f.Fuzz(func(t *testing.T, request []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
		if err != nil {
			return
		}
		w := &recorder{header: http.Header{}}
		s.mux.ServeHTTP(w, r)
		if w.header.Get("Content-Type") == "application/json" && !json.Valid(w.body.Bytes()) && r.Method != http.MethodHead {
			t.Errorf("%q", w.body.String())
		}
	})
}

type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }
func (r *recorder) WriteHeader(int)             {}
