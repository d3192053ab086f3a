// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each alert has a severity, a summary and a section in docs/alerts.md where its link leads, and
// a test of its durations; there is no section without an alert.
func TestRunbooks(t *testing.T) {
	read := func(file string) string {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rules, tests, page := read("prometheus/puntdns.rules.yaml"), read("prometheus/puntdns.rules.test.yaml"), read("../docs/alerts.md")
	var sections, alerts []string
	for _, m := range regexp.MustCompile(`(?m)^## (Puntdns\w+)\n(Critical|Warning|Info), (?:at once|after (\d+) minutes)`).FindAllStringSubmatch(page, -1) {
		sections = append(sections, m[1]+" "+strings.ToLower(m[2])+" "+m[3])
	}
	parts := strings.Split(rules, "      - alert: ")[1:]
	for _, part := range parts {
		name, _, _ := strings.Cut(part, "\n")
		field := func(expr string) string {
			if m := regexp.MustCompile(expr).FindStringSubmatch(part); m != nil {
				return m[1]
			}
			return ""
		}
		alerts = append(alerts, name+" "+field(`severity: (\w+)`)+" "+field(`for: (\d+)m`))
		if want := "https://github.com/puntdns/puntdns/blob/main/docs/alerts.md#" + strings.ToLower(name); field(`runbook_url: (\S+)`) != want {
			t.Errorf("%s: runbook %q, want %q", name, field(`runbook_url: (\S+)`), want)
		}
		if field(`summary: (.+)`) == "" || field(`description: (.+)`) == "" {
			t.Errorf("%s has no summary or description", name)
		}
		if !strings.Contains(tests, `alertname="`+name+`"`) {
			t.Errorf("%s has no test", name)
		}
	}
	slices.Sort(alerts)
	slices.Sort(sections)
	if len(alerts) == 0 || !slices.Equal(alerts, sections) {
		t.Errorf("alerts, with severity and minutes:\n%s\nsections:\n%s", strings.Join(alerts, "\n"), strings.Join(sections, "\n"))
	}
}
