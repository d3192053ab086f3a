// SPDX-License-Identifier: Apache-2.0

package rpz_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/corefile/corefiletest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/plugin/rpz"
	"github.com/puntdns/puntdns/plugin/rpz/source"
)

// A first start answers before a file was read, and whether or not it can be read; queries pass until it
// has rules. So does a reload. With required both are refused.
func TestStartWithoutRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "zone")
	write := func(rules string) {
		t.Helper()
		text := "$TTL 60\n@ SOA ns.rpz. hostmaster.rpz. 7 3600 600 86400 60\n" + rules
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o644), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	write("x CNA\n")
	input := func(property string) caddy.Input {
		text := ".:0 {\n bind 127.0.0.1\n rpz {\n zone rpz file " + path + "\n" + property + "\n }\n}"
		return caddy.CaddyfileInput{Contents: []byte(text), Filepath: "Corefile", ServerTypeName: "dns"}
	}
	setDirectives(t)
	if i, err := caddy.Start(input("required")); err == nil {
		i.ShutdownCallbacks()
		i.Stop()
		t.Fatal("it has started, though the file is required")
	}
	if err := corefile.StartFailed(); err != nil {
		t.Error(err)
	}
	i := corefiletest.Start(t, input(""))
	defer func() {
		i.ShutdownCallbacks()
		i.Stop()
	}()
	all := source.All()
	if len(all) != 1 {
		t.Fatalf("%d zones", len(all))
	}
	await := func(what string, done func() bool) {
		t.Helper()
		testkit.OnChange(t, all[0], what, done)
	}
	await("failed", func() bool { return all[0].Status().Failures == 1 })
	if reasons := new(rpz.Handler).NotReady(); all[0].Rules() != nil || len(reasons) != 0 {
		t.Errorf("not ready: %q", reasons)
	}
	if _, err := i.Restart(input("required")); err == nil {
		t.Error("a reload with required is not refused")
	}
	reloads := func() {
		t.Helper()
		i = corefiletest.Reload(t, i, input("log"))
	}
	reloads()
	status := func() api.Status {
		to := api.Status{}
		rpz.AddStatus(t.Context(), &to)
		return to
	}
	before := ""
	if w := status().Warnings; len(w) != 1 || w[0].Code != api.CodePolicyZone {
		t.Errorf("the status warns of %+v", w)
	} else {
		before = w[0].Text
	}
	write("x CNAME .\n")
	await("read", func() bool { return all[0].Rules() != nil })
	if w := status().Warnings; len(w) != 0 {
		t.Errorf("the status warns of %+v", w)
	}
	write("x CNA\n")
	await("failed again", func() bool { return all[0].Status().Problem != "" })
	if w := status().Warnings; len(w) != 1 || w[0].Text == before {
		t.Errorf("the status warns of %+v", w)
	}
	reloads()
	if now := source.All(); len(now) != 1 || now[0] != all[0] {
		t.Errorf("a reload does not share the rules: %v", now)
	}
}
