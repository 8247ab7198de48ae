// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package packaging tests the Helm chart and the Dockerfile in packaging.
package packaging

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const chart = "../../packaging/helm"

// everything switches all parts of the chart on.
const everything = `
valkey: {addresses: ["valkey-0:6379", "valkey-1:6379"], mode: cluster, tls: true, secret: shared, passwordKey: password}
postgresql: {secret: records}
autoscaling: {enabled: true}
ingress: {enabled: true, className: nginx, host: llm.example.com, tlsSecret: certificate}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
app: |
  memory 512MiB
  user anna sha256:0000000000000000000000000000000000000000000000000000000000000000
env: [{name: ANTHROPIC_API_KEY, valueFrom: {secretKeyRef: {name: anthropic, key: key}}}]
envFrom: [{secretRef: {name: more}}]
imagePullSecrets: [{name: registry}]
podAnnotations: {a: b}
nodeSelector: {a: b}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {}}
service: {annotations: {a: b}}
`

// object makes an empty object of a kind, nil for kinds that the chart has no business with.
func object(apiVersion, kind string) any {
	switch apiVersion + " " + kind {
	case "v1 ConfigMap":
		return new(corev1.ConfigMap)
	case "v1 Service":
		return new(corev1.Service)
	case "apps/v1 Deployment":
		return new(appsv1.Deployment)
	case "policy/v1 PodDisruptionBudget":
		return new(policyv1.PodDisruptionBudget)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return new(autoscalingv2.HorizontalPodAutoscaler)
	case "networking.k8s.io/v1 Ingress":
		return new(networkingv1.Ingress)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return new(monitoringv1.ServiceMonitor)
	}
	return nil
}

// render returns the objects of the chart by kind, with some values over its own. Members that Kubernetes does not
// know are errors.
func render(t *testing.T, values string) map[string]any {
	t.Helper()
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(c, given,
		common.ReleaseOptions{Name: "team", Namespace: "agents", IsInstall: true, Revision: 1}, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(t.Context(), c, all)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for text := range strings.SplitSeq(files[name], "\n---\n") {
			if strings.TrimSpace(text) == "" {
				continue
			}
			var head struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal([]byte(text), &head); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			o := object(head.APIVersion, head.Kind)
			if o == nil {
				t.Fatalf("%s: unknown kind %s %s", name, head.APIVersion, head.Kind)
			}
			if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			objects[head.Kind] = o
		}
	}
	return objects
}

func TestLint(t *testing.T) {
	for _, values := range []string{"{}", everything} {
		given := map[string]any{}
		if err := yaml.Unmarshal([]byte(values), &given); err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.RunAll(chart, given, "agents").Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%v", m)
			}
		}
	}
}

func TestObjects(t *testing.T) {
	few := slices.Sorted(maps.Keys(render(t, "")))
	if want := []string{"ConfigMap", "Deployment", "PodDisruptionBudget", "Service"}; !slices.Equal(few, want) {
		t.Errorf("by default: got %v, want %v", few, want)
	}
	all := slices.Sorted(maps.Keys(render(t, everything)))
	if want := []string{
		"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Ingress", "PodDisruptionBudget", "Service",
		"ServiceMonitor",
	}; !slices.Equal(all, want) {
		t.Errorf("with everything: got %v, want %v", all, want)
	}
	if d := render(t, everything)["Deployment"].(*appsv1.Deployment); d.Spec.Replicas != nil {
		t.Errorf("the autoscaler's replicas are overwritten by %d", *d.Spec.Replicas)
	}
}

// TestCaddyfile: the Caddy in LLM_CACHE_CADDY accepts the configuration, which drains streams within the pod's grace
// period.
func TestCaddyfile(t *testing.T) {
	binary := os.Getenv("LLM_CACHE_CADDY")
	if binary == "" {
		t.Skip("no LLM_CACHE_CADDY: the Caddyfile is not validated")
	}
	for _, values := range []string{"", everything} {
		objects := render(t, values)
		dir := t.TempDir()
		files := objects["ConfigMap"].(*corev1.ConfigMap).Data
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), binary, "adapt", "--validate", "--adapter", "caddyfile", "--config",
			filepath.Join(dir, "Caddyfile"))
		cmd.Env = []string{
			"HOME=" + dir, "XDG_DATA_HOME=" + dir, "LLM_CACHE_KEY=" + strings.Repeat("ab", 32),
			"LLM_CACHE_VALKEY_PASSWORD=x", "LLM_CACHE_POSTGRESQL=postgres://127.0.0.1:1/x",
		}
		var log bytes.Buffer
		cmd.Stderr = &log
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s\n%s", err, log.String(), files["Caddyfile"])
		}
		var config struct {
			Apps struct {
				HTTP struct {
					Grace time.Duration `json:"grace_period"`
					Delay time.Duration `json:"shutdown_delay"`
				} `json:"http"`
			} `json:"apps"`
		}
		if err := yaml.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		pod := objects["Deployment"].(*appsv1.Deployment).Spec.Template.Spec
		caddy := config.Apps.HTTP.Delay + config.Apps.HTTP.Grace
		if ends := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; config.Apps.HTTP.Delay == 0 || ends <= caddy {
			t.Errorf("the pod is killed after %s, Caddy takes up to %s", ends, caddy)
		}
		probe := pod.Containers[0].ReadinessProbe.HTTPGet
		if path, _, _ := strings.Cut(probe.Path, "?"); !strings.Contains(files["Caddyfile"], "health "+path+"\n") {
			t.Errorf("nothing answers the probe of %s:\n%s", probe.Path, files["Caddyfile"])
		}
	}
}
