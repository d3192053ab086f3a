// SPDX-License-Identifier: Apache-2.0

package test

import (
	"crypto/x509"
	"fmt"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
	"github.com/puntdns/puntdns/test/pages"
)

func readPages(t *testing.T) []*pages.Page {
	t.Helper()
	all, err := pages.Read("..")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// started is what puntdns prints once it has started.
const started = `(?m)^linux/\w+, go1`

// Each Corefile of the pages starts on a node where everything is in its usual place, and ends well.
func TestDocumentedCorefilesStart(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	l.AddSwitch("red")
	l.Sync()
	in := install(t, l)
	files := l.NewCA("ca").Issue("puntdns", func(*x509.Certificate) {})
	for name, path := range map[string]string{"cert.pem": files.Cert, "key.pem": files.Key, "ca.pem": files.CA} {
		in.write(name, readFile(t, path))
	}
	const policy = "$TTL 300\n@ SOA localhost. nobody.invalid. 1 300 60 600 60\n@ NS localhost.\nbad.example CNAME .\n"
	in.write("local.rpz", policy)
	in.sh("cp local.rpz /var/lib/puntdns/feed.rpz")
	example := pages.Block{Language: "corefile", Text: readFile(t, "../Corefile.example")}
	all := append(readPages(t), &pages.Page{Path: "Corefile.example", Blocks: []pages.Block{example}})
	n := 0
	for _, page := range all {
		for _, block := range page.Blocks {
			if block.Language != "corefile" {
				continue
			}
			n++
			t.Run(fmt.Sprintf("%s:%d", page.Path, block.Line), func(t *testing.T) {
				in.starts(t, fmt.Sprintf("start%d", n), block.Text)
			})
		}
	}
}

// starts starts a Corefile, and ends it when it has read the local database, if it has a bridge.
func (in *installation) starts(t *testing.T, name, corefile string) {
	t.Helper()
	in.write("Corefile", corefile)
	p := in.Node.Start(name, []string{"GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=100"}, in.program, "-conf", "/etc/puntdns/Corefile")
	lines := []string{started}
	if strings.Contains(corefile, "ofpunt ") {
		lines = append(lines, `Open_vSwitch database \S+ is read`)
	}
	for _, line := range lines {
		if err := p.WaitLog(within(t, wait), line); err != nil {
			t.Fatalf("%v\n%s\n%s", err, p.Log(), corefile)
		}
	}
	if err := p.Stop(); err != nil {
		t.Errorf("at the end: %v\n%s", err, p.Log())
	}
}
