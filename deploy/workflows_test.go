// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is what TestWorkflows reads of a file for GitHub Actions.
type workflow struct {
	Jobs map[string]struct {
		Strategy struct{ Matrix map[string][]string }
		Steps    []struct{ Uses, Run string }
	}
}

// TestWorkflows wants the workflows to run targets of the Makefile and nothing else, so that a contributor can
// run them too. Actions of others are named by their commit.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatalf("workflows: %q, %v", files, err)
	}
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for name, job := range w.Jobs {
			for _, step := range job.Steps {
				if step.Uses != "" {
					if !pinned.MatchString(step.Uses) {
						t.Errorf("%s: %s: %s: expected the commit of the action", file, name, step.Uses)
					}
					continue
				}
				for _, run := range unfold(step.Run, job.Strategy.Matrix) {
					words := strings.Fields(run)
					if len(words) < 2 || words[0] != "make" || strings.ContainsAny(run, "\n;&|") || !strings.Contains(string(makefile), "\n"+words[1]+":") {
						t.Errorf("%s: %s runs %q, expected a target of the Makefile", file, name, run)
					}
				}
			}
		}
	}
}

// unfold returns a command for each value of the matrix that it names.
func unfold(run string, matrix map[string][]string) []string {
	for key, values := range matrix {
		if place := "${{ matrix." + key + " }}"; strings.Contains(run, place) {
			var all []string
			for _, v := range values {
				all = append(all, strings.ReplaceAll(run, place, v))
			}
			return all
		}
	}
	return []string{run}
}
