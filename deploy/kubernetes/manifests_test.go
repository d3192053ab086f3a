// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/puntdns/puntdns/test/pages"
)

// expected are what the overlays differ in: whom the sockets belong to, and where they are.
var expected = map[string]struct {
	user       int64
	hostPath   string
	secrets    []string
	otherNames []string // of Services whose address the Corefile takes, beside those of all
}{
	"ovn-kubernetes": {user: 0, hostPath: "/var/run/openvswitch"},
	"kube-ovn":       {user: 65534, hostPath: "/run/openvswitch", otherNames: []string{"ovn-sb"}},
	"kube-ovn-ssl":   {user: 65534, hostPath: "/run/openvswitch", secrets: []string{"kube-ovn-tls"}, otherNames: []string{"ovn-sb"}},
}

// eachOverlay runs a test of each.
func eachOverlay(t *testing.T, f func(t *testing.T, overlay string, m *manifests)) {
	t.Helper()
	names := overlays(t)
	if len(names) != len(expected) {
		t.Errorf("the overlays %v, want %d", names, len(expected))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if _, ok := expected[name]; !ok {
				t.Fatal("this test does not know the overlay")
			}
			f(t, name, render(t, name))
		})
	}
}

// The pod has the access to the switch that its user has, and nothing else of the node.
func TestPrivileges(t *testing.T) {
	eachOverlay(t, func(t *testing.T, overlay string, m *manifests) {
		want := expected[overlay]
		pod := &m.daemonSet.Spec.Template.Spec
		if pod.HostNetwork || pod.HostPID || pod.HostIPC {
			t.Error("it has a namespace of the host")
		}
		if s := pod.SecurityContext; s == nil || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Error("it has not the seccomp profile of the runtime")
		}
		if a := pod.AutomountServiceAccountToken; a == nil || *a {
			t.Error("it has a token for the API server")
		}
		s := m.container(t).SecurityContext
		is := func(what string, got *bool, want bool) {
			t.Helper()
			if got == nil || *got != want {
				t.Errorf("%s is not %v", what, want)
			}
		}
		is("privileged", s.Privileged, false)
		is("allowPrivilegeEscalation", s.AllowPrivilegeEscalation, false)
		is("readOnlyRootFilesystem", s.ReadOnlyRootFilesystem, true)
		if want.user != 0 {
			is("runAsNonRoot", s.RunAsNonRoot, true)
		}
		if s.RunAsUser == nil || *s.RunAsUser != want.user || s.RunAsGroup == nil || *s.RunAsGroup != want.user {
			t.Errorf("user and group are not %d", want.user)
		}
		if c := s.Capabilities; c == nil || len(c.Add) > 0 || !slices.Equal(c.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("capabilities %+v, want none", c)
		}
	})
}

// Every volume is mounted, every mount has its volume, and nothing can be written.
func TestVolumes(t *testing.T) {
	eachOverlay(t, func(t *testing.T, overlay string, m *manifests) {
		want := expected[overlay]
		mounts := map[string]corev1.VolumeMount{}
		for _, mount := range m.container(t).VolumeMounts {
			mounts[mount.Name] = mount
			if !mount.ReadOnly {
				t.Errorf("%s can be written", mount.Name)
			}
		}
		var hostPaths, secrets []string
		for _, v := range m.daemonSet.Spec.Template.Spec.Volumes {
			mount, ok := mounts[v.Name]
			if !ok {
				t.Errorf("the volume %s is not mounted", v.Name)
			}
			delete(mounts, v.Name)
			switch {
			case v.HostPath != nil:
				hostPaths = append(hostPaths, v.HostPath.Path)
				if v.HostPath.Type == nil || *v.HostPath.Type != corev1.HostPathDirectory {
					t.Errorf("%s need not be there", v.HostPath.Path)
				}
				if mount.MountPath != "/var/run/openvswitch" {
					t.Errorf("the sockets are at %s", mount.MountPath)
				}
			case v.Secret != nil:
				secrets = append(secrets, v.Secret.SecretName)
			}
		}
		for name := range mounts {
			t.Errorf("the mount %s has no volume", name)
		}
		if !slices.Equal(hostPaths, []string{want.hostPath}) || !slices.Equal(secrets, want.secrets) {
			t.Errorf("folders of the host %v, secrets %v; want %s, %v", hostPaths, secrets, want.hostPath, want.secrets)
		}
		if dir := filepath.Dir("/etc/puntdns/Corefile"); !slices.ContainsFunc(m.container(t).VolumeMounts, func(v corev1.VolumeMount) bool { return v.MountPath == dir }) {
			t.Errorf("nothing is mounted at %s", dir)
		}
	})
}

// The documented patch gives each overlay a folder for the snapshot, and takes nothing away.
func TestDocumentedPatch(t *testing.T) {
	var patches []string
	for _, b := range pages.Load(t, "../..", "docs/kubernetes.md").Blocks {
		if b.Language == "yaml" {
			patches = append(patches, b.Text)
		}
	}
	if len(patches) != 1 {
		t.Fatalf("%d blocks of yaml, want 1", len(patches))
	}
	eachOverlay(t, func(t *testing.T, overlay string, m *manifests) {
		folder := t.TempDir()
		base, err := filepath.Abs("overlays/" + overlay)
		if err == nil {
			base, err = filepath.Rel(folder, base)
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"kustomization.yaml": "resources:\n  - " + base + "\npatches:\n  - path: state.yaml\n",
			"state.yaml":         patches[0],
		} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		patched := renderFolder(t, folder)
		mounts, volumes := patched.container(t).VolumeMounts, patched.daemonSet.Spec.Template.Spec.Volumes
		if len(mounts) != len(m.container(t).VolumeMounts)+1 || len(volumes) != len(m.daemonSet.Spec.Template.Spec.Volumes)+1 {
			t.Errorf("mounts %+v, volumes %+v; want one more of each", mounts, volumes)
		}
		mounted := slices.IndexFunc(mounts, func(v corev1.VolumeMount) bool { return v.MountPath == "/var/lib/puntdns" && !v.ReadOnly })
		if mounted < 0 || !slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.Name == mounts[mounted].Name && v.EmptyDir != nil }) {
			t.Errorf("mounts %+v, volumes %+v; want a folder for the snapshot", mounts, volumes)
		}
	})
}

// In an update the new pod of a node is beside the old one until it is ready. They share no
// port, neither with each other nor with what is on the node.
func TestRollingUpdate(t *testing.T) {
	eachOverlay(t, func(t *testing.T, _ string, m *manifests) {
		u := m.daemonSet.Spec.UpdateStrategy.RollingUpdate
		if one, none := intstr.FromInt32(1), intstr.FromInt32(0); u == nil || u.MaxSurge == nil || *u.MaxSurge != one || u.MaxUnavailable == nil || *u.MaxUnavailable != none {
			t.Errorf("rolling update %+v, want a surge of 1 and none unavailable", u)
		}
		c := m.container(t)
		ports := map[string]int32{}
		for _, p := range c.Ports {
			ports[p.Name] = p.ContainerPort
			if p.HostPort != 0 {
				t.Errorf("%s takes port %d of the node", p.Name, p.HostPort)
			}
		}
		for _, p := range []struct {
			name, path string
			probe      *corev1.Probe
		}{{"health", "/health", c.LivenessProbe}, {"ready", "/ready", c.ReadinessProbe}} {
			if p.probe == nil || p.probe.HTTPGet == nil || p.probe.HTTPGet.Port.StrVal != p.name || p.probe.HTTPGet.Path != p.path || p.probe.HTTPGet.Host != "" {
				t.Errorf("the probe %+v, want %s at the port %s of the pod", p.probe, p.path, p.name)
			}
		}
		for directive, name := range map[string]string{"prometheus": "metrics", "health": "health", "ready": "ready"} {
			if got := argument(m.corefile, directive); got != ":"+strconv.Itoa(int(ports[name])) {
				t.Errorf("%s is at %q in the Corefile, the port %s is %d", directive, got, name, ports[name])
			}
		}
	})
}

// argument is the first of a directive.
func argument(corefile, directive string) string {
	for line := range strings.Lines(corefile) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == directive {
			return words[1]
		}
	}
	return ""
}

func TestObjects(t *testing.T) {
	eachOverlay(t, func(t *testing.T, _ string, m *manifests) {
		const namespace = "kube-system"
		d, c := &m.daemonSet, m.container(t)
		if want := released(t); c.Image != want {
			t.Errorf("the image is %s, the Makefile and the file VERSION have %s", c.Image, want)
		}
		for k, v := range d.Spec.Selector.MatchLabels {
			if d.Spec.Template.Labels[k] != v {
				t.Errorf("the selector wants %s=%s, the pods have %v", k, v, d.Spec.Template.Labels)
			}
		}
		if len(m.accounts) != 1 || m.accounts[0].Name != d.Spec.Template.Spec.ServiceAccountName {
			t.Errorf("the account %s is not there", d.Spec.Template.Spec.ServiceAccountName)
		}
		// All of one namespace, by which the Services are in the environment.
		for _, n := range []string{d.Namespace, m.accounts[0].Namespace, m.configMaps[0].Namespace, m.services[0].Namespace} {
			if n != namespace {
				t.Errorf("an object is in %q, want all in %s", n, namespace)
			}
		}
		limit := c.Resources.Limits.Memory().Value()
		var soft int64
		for _, e := range c.Env {
			if e.Name == "GOMEMLIMIT" {
				soft = mebibytes(t, e.Value)
			}
		}
		if soft < limit*3/4 || soft > limit*19/20 {
			t.Errorf("GOMEMLIMIT is %d, the limit %d; want some less", soft, limit)
		}
		if !c.Resources.Limits.Cpu().IsZero() {
			t.Error("processor time is limited: that delays all answers")
		}
	})
}

// released is the image that make push pushes for the version of the tree.
func released(t *testing.T) string {
	t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	version, err := os.ReadFile("../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(makefile), "\nREPOSITORY ?= ")
	if !ok {
		t.Fatal("the Makefile has no REPOSITORY")
	}
	repository, _, _ := strings.Cut(rest, "\n")
	return repository + ":" + strings.TrimSpace(string(version))
}

// TestOneImage sets another image in the one place, and wants it in each overlay.
func TestOneImage(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "base/kustomization.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name, tag, _ := strings.Cut(released(t), ":")
	other := strings.NewReplacer("newName: "+name, "newName: mirror.example/dns", "newTag: "+tag, "newTag: 1.2.3").Replace(string(text))
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, overlay := range overlays(t) {
		m := renderFolder(t, filepath.Join(folder, "overlays", overlay))
		if got := m.container(t).Image; got != "mirror.example/dns:1.2.3" {
			t.Errorf("%s: the image is %s", overlay, got)
		}
	}
}
