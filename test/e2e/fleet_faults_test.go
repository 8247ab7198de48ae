// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/redis"
)

// trouble is a fault of a session server. over ends it.
type trouble struct {
	name  string
	begin func(t *testing.T, s *redis.Server) (over func())
}

var troubles = []trouble{
	{"killed", func(t *testing.T, s *redis.Server) func() {
		s.Kill()
		return func() { starts(t)(s, nil) }
	}},
	{"paused", func(_ *testing.T, s *redis.Server) func() {
		s.Pause()
		return s.Resume
	}},
	{"flushed", func(t *testing.T, s *redis.Server) func() {
		do(t, s, "FLUSHALL")
		return func() {}
	}},
	{"full", func(t *testing.T, s *redis.Server) func() {
		do(t, s, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		do(t, s, "CONFIG", "SET", "maxmemory", "1mb")
		return func() { do(t, s, "CONFIG", "SET", "maxmemory", "0") }
	}},
}

func do(t *testing.T, s *redis.Server, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	said, err := s.Do(ctx, args...)
	if err != nil {
		t.Error(err)
	}
	return said
}

// impatient returns a store with the default timeout.
func impatient(options string) string {
	return "valkey " + options + "\n\t\t\tkey " + fleetKey + "\n\t\t}"
}

// waits lengthens the timeout of requests for a store's server: the machine may be slow.
const waits = "\n\t\t\ttimeout 1s"

// shares waits until a session of one node is at the other, too.
func (f *fleet) shares(t *testing.T) {
	t.Helper()
	for range 100 { // a server in trouble gets missing writes each second
		talk := &fleetTalk{name: "again " + rand.Text(), named: true}
		for i := range 2 {
			talk.calls = append(talk.calls, chatter(i))
		}
		f.model.add(talk)
		for i, n := range f.nodes[:2] {
			if _, err := f.askOne(t.Context(), n, talk, i); err != nil {
				t.Fatal(err)
			}
		}
		var page struct {
			Sessions []session `json:"sessions"`
		}
		if err := f.nodes[1].process.Get(t.Context(), "/llm_cache/sessions?limit=1", &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Sessions) == 1 && page.Sessions[0].requests() == 2 && len(page.Sessions[0].Conversations) == 1 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("what one node knows the other does not")
}

// A session server that is killed, paused, flushed or full costs no request. After its recovery the
// nodes share sessions again.
//
// LLM_CACHE_FLEET is the duration of each trouble, by default a second. The test logs the durations
// of requests before and during the trouble.
func TestFleetInTrouble(t *testing.T) {
	needCaddy(t)
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("LLM_CACHE_FLEET"), "1s"))
	if err != nil {
		t.Fatal(err)
	}
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			s := startRedis(t)
			f := startFleet(t, 2, impatient("{\n\t\t\taddress "+s.Addr), "cost_aware", startModel(t, nil))
			f.shares(t)
			before := f.chats(t, lasts)
			over := trouble.begin(t, s)
			during := f.chats(t, lasts)
			over()
			f.shares(t)
			tellOf(t, before, during)
		})
	}
}

// After the failure of a server watched by sentinels the replica takes over, and the nodes use it.
func TestFleetFailsOver(t *testing.T) {
	needCaddy(t)
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("LLM_CACHE_FLEET"), "1s"))
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := caddy.FreeAddrs(2)
	if err != nil {
		t.Fatal(err)
	}
	master := startRedis(t)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica := starts(t)(redis.New(filepath.Join(t.TempDir(), "replica"), addrs[0], "--replicaof", host+" "+port))
	sentinel := starts(t)(redis.NewSentinel(filepath.Join(t.TempDir(), "sentinel"), addrs[1], master.Addr))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := replica.Until(ctx, "master_link_status:up", "INFO", "replication"); err != nil {
		t.Fatal(err)
	}
	if err := sentinel.Until(ctx, "slaves=1", "INFO", "sentinel"); err != nil {
		t.Fatal(err)
	}
	f := startFleet(t, 2, impatient("sentinel main {\n\t\t\taddress "+sentinel.Addr), "cost_aware", startModel(t, nil))
	f.shares(t)
	before := f.chats(t, lasts)
	master.Kill()
	during := f.chats(t, lasts)
	if err := replica.Until(ctx, "role:master", "INFO", "replication"); err != nil {
		t.Fatal(err)
	}
	f.shares(t)
	if n := do(t, replica, "DBSIZE"); n == "0" {
		t.Error("nothing is at the replica that took over")
	}
	tellOf(t, before, during)
}

// Sessions are spread over all nodes of a cluster. Those of a failed node begin anew.
func TestFleetOverACluster(t *testing.T) {
	needCaddy(t)
	addrs, err := caddy.FreeAddrs(6)
	if err != nil {
		t.Fatal(err)
	}
	var members []*redis.Server
	for i := range 3 {
		_, bus, _ := net.SplitHostPort(addrs[3+i])
		members = append(members, starts(t)(redis.New(filepath.Join(t.TempDir(), "node"), addrs[i], "--cluster-enabled",
			"yes", "--cluster-port", bus, "--cluster-require-full-coverage", "no")))
	}
	for i, m := range members {
		do(t, m, "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(i*16384/3), fmt.Sprint((i+1)*16384/3-1))
		host, port, _ := net.SplitHostPort(addrs[i])
		_, bus, _ := net.SplitHostPort(addrs[3+i])
		do(t, members[0], "CLUSTER", "MEET", host, port, bus)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, m := range members {
		for _, what := range []string{"cluster_state:ok", "cluster_known_nodes:3", "cluster_slots_ok:16384"} {
			if err := m.Until(ctx, what, "CLUSTER", "INFO"); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := startFleet(t, 2, impatient("cluster {\n\t\t\taddress "+addrs[0]+" "+addrs[1]+waits), "cost_aware",
		startModel(t, nil))
	for range 20 {
		f.shares(t)
	}
	for i, m := range members {
		if n := do(t, m, "DBSIZE"); n == "0" {
			t.Errorf("nothing is at node %d", i)
		}
	}
	members[2].Kill()
	f.chats(t, time.Second)
	for range 5 { // at the other nodes
		f.shares(t)
	}
}

// A server's certificate is accepted from the configured authority only.
func TestFleetOverTLS(t *testing.T) {
	needCaddy(t)
	dir := t.TempDir()
	ca, cert, key := certificates(t, dir)
	addrs, err := caddy.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	s := starts(t)(redis.NewTLS(filepath.Join(dir, "redis"), addrs[0], cert, key, ca))
	f := startFleet(t, 2, impatient("{\n\t\t\taddress "+s.Addr+"\n\t\t\ttls {\n\t\t\t\tca "+ca+"\n\t\t\t}"+waits),
		"cost_aware", startModel(t, nil))
	f.shares(t)
	if n := do(t, s, "DBSIZE"); n == "0" {
		t.Error("nothing is at the server")
	}
	do(t, s, "FLUSHALL")
	strangers := startFleet(t, 1, impatient("{\n\t\t\taddress "+s.Addr+"\n\t\t\ttls"), "cost_aware", startModel(t, nil))
	strangers.chats(t, time.Second)
	for _, n := range f.nodes { // they would write the flushed sessions again
		n.mu.Lock()
		n.process.Kill()
		n.mu.Unlock()
	}
	do(t, s, "FLUSHALL")
	strangers.chats(t, 2*time.Second)
	if n := do(t, s, "DBSIZE"); n != "0" {
		t.Errorf("%s keys are at a server whose certificate nobody vouches for", n)
	}
	if log := strangers.nodes[0].process.LogTail(); !strings.Contains(log, "certificate") {
		t.Errorf("nobody is told why:\n%s", log)
	}
	for _, n := range f.nodes {
		n.start(t)
	}
}

// certificates makes an authority, and its server certificate for 127.0.0.1.
func certificates(t *testing.T, dir string) (ca, cert, key string) {
	t.Helper()
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: root.NotBefore,
		NotAfter:    root.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	rootKey, leafKey := newKey(t), newKey(t)
	write := func(name, kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	ca = write("ca.pem", "CERTIFICATE", der, err)
	der, err = x509.CreateCertificate(rand.Reader, leaf, root, &leafKey.PublicKey, rootKey)
	cert = write("cert.pem", "CERTIFICATE", der, err)
	der, err = x509.MarshalPKCS8PrivateKey(leafKey)
	return ca, cert, write("key.pem", "PRIVATE KEY", der, err)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// chats runs four clients, one request after another, each at any node, and returns the durations
// of the requests. None may fail.
func (f *fleet) chats(t *testing.T, lasts time.Duration) (took []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var work sync.WaitGroup
	end := time.Now().Add(lasts)
	for client := range 4 {
		talk := &fleetTalk{name: fmt.Sprintf("client %d %s", client, rand.Text()), named: true, streamed: client%2 == 0}
		for i := range 10_000 {
			talk.calls = append(talk.calls, chatter(i))
		}
		f.model.add(talk)
		work.Go(func() {
			for i := 0; i == 0 || time.Now().Before(end) && i < 10_000; i++ {
				call := i % 40
				began := time.Now()
				if _, err := f.askOne(t.Context(), f.nodes[i%len(f.nodes)], talk, call); err != nil {
					t.Errorf("%s, call %d: %v", talk.name, i, err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	work.Wait()
	return took
}

// tellOf logs the durations of requests before and during the trouble.
func tellOf(t *testing.T, before, during []time.Duration) {
	t.Helper()
	for _, took := range [][]time.Duration{before, during} {
		slices.Sort(took)
	}
	at := func(took []time.Duration, part int) float64 {
		return float64(took[len(took)*part/100].Microseconds()) / 1000
	}
	t.Logf("ms, %d requests before and %d during: p50 %.1f, %.1f; p99 %.1f, %.1f (%+.1f)", len(before), len(during),
		at(before, 50), at(during, 50), at(before, 99), at(during, 99), at(during, 99)-at(before, 99))
}
