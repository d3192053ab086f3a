// SPDX-License-Identifier: Apache-2.0

// Package kubernetes has the manifests for clusters whose pods are on OVN, and their tests.
package kubernetes

import (
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// manifests are the objects of an overlay, each decoded as the API server does it with
// strict field validation.
type manifests struct {
	daemonSet  appsv1.DaemonSet
	configMaps []corev1.ConfigMap
	services   []corev1.Service
	accounts   []corev1.ServiceAccount
	corefile   string // of the ConfigMap that the pod mounts
}

// overlays returns the names of all folders in overlays.
func overlays(t *testing.T) (names []string) {
	t.Helper()
	all, err := os.ReadDir("overlays")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		names = append(names, o.Name())
	}
	return names
}

// render builds an overlay, as kubectl apply -k does.
func render(t *testing.T, overlay string) *manifests {
	t.Helper()
	return renderFolder(t, "overlays/"+overlay)
}

// renderFolder builds what is in a folder.
func renderFolder(t *testing.T, folder string) *manifests {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	m, daemonSets := new(manifests), 0
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		if r.GetKind() == "DaemonSet" {
			daemonSets++
		}
		if err := m.add(r.GetApiVersion()+" "+r.GetKind(), text); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	if daemonSets != 1 {
		t.Fatalf("%d DaemonSets, want 1", daemonSets)
	}
	m.mounted(t)
	return m
}

// add decodes an object. A field that its type does not have, and one that is given twice, are
// errors.
func (m *manifests) add(kind string, text []byte) error {
	switch kind {
	case "apps/v1 DaemonSet":
		return yaml.UnmarshalStrict(text, &m.daemonSet)
	case "v1 ConfigMap":
		return appended(&m.configMaps, text)
	case "v1 Service":
		return appended(&m.services, text)
	case "v1 ServiceAccount":
		return appended(&m.accounts, text)
	}
	return fmt.Errorf("%s: expected a kind that this test knows", kind)
}

func appended[T any](all *[]T, text []byte) error {
	var one T
	err := yaml.UnmarshalStrict(text, &one)
	*all = append(*all, one)
	return err
}

// mounted finds the Corefile of the pod.
func (m *manifests) mounted(t *testing.T) {
	t.Helper()
	for _, v := range m.daemonSet.Spec.Template.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		for _, c := range m.configMaps {
			if c.Name == v.ConfigMap.Name {
				m.corefile = c.Data["Corefile"]
			}
		}
	}
	if m.corefile == "" {
		t.Fatalf("the pod mounts no Corefile of the %d ConfigMaps", len(m.configMaps))
	}
}

// container is the only one of the pod.
func (m *manifests) container(t *testing.T) *corev1.Container {
	t.Helper()
	pod := &m.daemonSet.Spec.Template.Spec
	if n := len(pod.Containers) + len(pod.InitContainers); n != 1 {
		t.Fatalf("%d containers, want 1", n)
	}
	return &pod.Containers[0]
}

// What the API server would drop or refuse is an error here.
func TestStrictDecoding(t *testing.T) {
	text, err := os.ReadFile("base/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	right := string(text)
	for _, tc := range []struct{ name, kind, text, want string }{
		{"right", "apps/v1 DaemonSet", right, ""},
		{"an unknown field", "apps/v1 DaemonSet", strings.Replace(right, "minReadySeconds", "minReadySecond", 1), `unknown field "minReadySecond"`},
		{"a field of another place", "apps/v1 DaemonSet", strings.Replace(right, "      hostNetwork: false\n", "", 1) + "hostNetwork: false\n", `unknown field "hostNetwork"`},
		{"a field twice", "apps/v1 DaemonSet", strings.Replace(right, "  minReadySeconds: 5\n", "  minReadySeconds: 5\n  minReadySeconds: 6\n", 1), "already set"},
		{"a wrong type", "apps/v1 DaemonSet", strings.Replace(right, "minReadySeconds: 5", "minReadySeconds: soon", 1), "cannot unmarshal string"},
		{"another kind", "v1 Secret", "kind: Secret", "expected a kind that this test knows"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := new(manifests).add(tc.kind, []byte(tc.text))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
