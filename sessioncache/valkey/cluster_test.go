// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

const masters = 3

// realCluster starts a cluster of three masters, each with a third of the slots, which does
// without one that is lost.
func realCluster(t *testing.T) (addrs [masters]string, processes [masters]*os.Process) {
	t.Helper()
	program, err := exec.LookPath("valkey-server")
	if err != nil {
		program, err = exec.LookPath("redis-server")
	}
	if err != nil {
		t.Skip("neither Valkey nor Redis is installed")
	}
	var ports [2 * masters]string // of masters, and of their bus
	for i := range ports {
		for { // below those that the system gives to connections, which would be taken before the server listens
			ports[i] = strconv.Itoa(20_000 + rand.IntN(12_000))
			l, err := net.Listen("tcp", "127.0.0.1:"+ports[i])
			if err == nil {
				_ = l.Close()
				break
			}
		}
		if i%2 == 1 {
			addrs[i/2] = net.JoinHostPort("127.0.0.1", ports[i-1])
		}
	}
	var ended [masters]chan struct{}
	do := func(i int, args ...string) string {
		t.Helper()
		for { // it has just been started
			c, err := valkey.NewClient(valkey.ClientOption{
				InitAddress: []string{addrs[i]}, DisableCache: true,
				ForceSingleClient: true,
			})
			if err == nil {
				defer c.Close()
				said, err := c.Do(t.Context(), c.B().Arbitrary(args...).Build()).ToString()
				if err != nil {
					t.Fatal(err)
				}
				return said
			}
			select {
			case <-ended[i]:
				t.Fatalf("master %d has ended", i)
			case <-t.Context().Done():
				t.Fatal(err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	for i := range masters {
		cmd := exec.Command(program, "--port", ports[2*i], "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "",
			"--loglevel", "warning",
			"--cluster-enabled", "yes", "--cluster-port", ports[2*i+1], "--cluster-require-full-coverage", "no")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		processes[i], ended[i] = cmd.Process, make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(ended[i])
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			<-ended[i]
		})
		do(i, "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(i*slots/masters), fmt.Sprint((i+1)*slots/masters-1))
		do(0, "CLUSTER", "MEET", "127.0.0.1", ports[2*i], ports[2*i+1])
	}
	for i := range masters {
		for {
			said := do(i, "CLUSTER", "INFO")
			var ok, known int
			for line := range strings.Lines(said) {
				_, _ = fmt.Sscanf(line, "cluster_slots_ok:%d", &ok)
				_, _ = fmt.Sscanf(line, "cluster_known_nodes:%d", &known)
			}
			if ok == slots && known == masters && strings.Contains(said, "cluster_state:ok") {
				break
			}
			if t.Context().Err() != nil {
				t.Fatalf("master %d does not see the others: %s", i, said)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return addrs, processes
}

func openCluster(t *testing.T, addrs [masters]string, prefix string) *Valkey {
	t.Helper()
	v := Open(Options{Addresses: addrs[:], Cluster: true, Prefix: prefix, TTL: time.Hour})
	reached(t, v)
	if v.shards.of.Load() == nil {
		t.Fatal("it is not known where the slots are")
	}
	return v
}

func TestConformsInCluster(t *testing.T) {
	addrs, _ := realCluster(t)
	storetest.Shared(t, func(t *testing.T) sessioncache.Shared { return openCluster(t, addrs, t.Name()+":") })
}

// After the loss of a cluster's master, two processes continue the conversations at the other
// masters as one process would: each knows every answer that the other has received. Once the
// master is back, its sessions are shared again.
func TestLostShard(t *testing.T) {
	for name, lose := range map[string]func(*os.Process) (back func()){
		"killed": func(p *os.Process) func() { _ = p.Kill(); return nil },
		"paused": suspend,
	} {
		t.Run(name, func(t *testing.T) {
			addrs, processes := realCluster(t)
			budget := 200 * time.Millisecond
			if testing.Short() { // the race detector takes its time
				budget = time.Second
			}
			var nodes [2]*sessioncache.Store
			for i := range nodes {
				v := openCluster(t, addrs, "t:")
				d, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{Open: func() (sessioncache.Backend, error) { return v, nil }, Budget: budget}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = d.Close() })
				nodes[i] = d
			}
			const conversations, begins, ends = 24, 3, 9
			lies := func(id int) int { // at which master
				return int(slot((&Valkey{o: Options{Prefix: "t:"}}).key(beginning(keyOf(id).Digest())))) * masters / slots
			}
			for id := range 4 * conversations { // connections are made, and scripts loaded
				_, _ = passage(t, nodes[id%2], conversations+id, 0)
			}
			time.Sleep(time.Second)
			var back func()
			var waits time.Duration // of conversations at the others, since the master was lost
			for turn := range ends {
				if turn == begins {
					back = lose(processes[0])
				}
				for id := range conversations {
					waited, known := passage(t, nodes[turn%2], id, turn)
					if lies(id) != 0 && known != turn {
						t.Errorf("turn %d of conversation %d at master %d: %d answers are known", turn, id, lies(id), known)
					}
					if lies(id) != 0 && turn > begins+1 {
						waits = max(waits, waited)
					}
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Logf("requests of conversations at the others wait %s at most", waits)
			if back == nil {
				return
			}
			back()
			for turn := ends; ; turn += 2 {
				for id := range conversations {
					if lies(id) != 0 {
						continue
					}
					_, _ = passage(t, nodes[0], id, turn)
					time.Sleep(50 * time.Millisecond)
					if _, known := passage(t, nodes[1], id, turn+1); known == turn+1 {
						return
					}
				}
				if turn > 100*ends {
					t.Fatal("the master that is back is not used again")
				}
			}
		})
	}
}

func keyOf(id int) sessioncache.Key {
	return sessioncache.Key{Tenant: sessioncache.Tenant{1}, Upstream: "u", ID: fmt.Sprint(id)}
}

// passage is a request of a conversation without a client id. It returns the time that the request
// waited, and how many of its answers the process knew.
func passage(t *testing.T, d *sessioncache.Store, id, turn int) (waited time.Duration, known int) {
	t.Helper()
	messages := fmt.Sprintf(`{"role":"user","content":"%d"}`, id)
	for i := range turn {
		messages += fmt.Sprintf(`,{"role":"assistant","content":"a%d of %d"},{"role":"user","content":"u%d"}`, i, id, i)
	}
	v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+messages+`]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := keyOf(id)
	k.Request, k.Answer = v, v.FirstAnswer()
	begun := time.Now()
	s := d.Acquire(t.Context(), k)
	s.Lock()
	m := s.Match(v)
	s.Unlock()
	states := sessioncache.NewBlockStates(len(v.MessageBlocks()))
	if turn%3 == 0 { // the request has a new edit
		d.Claim(t.Context(), s, m, v, states, func(*sessioncache.Conversation) {})
	}
	waited = time.Since(begun)
	s.Lock()
	l := s.Commit(m, v, states)
	s.CountRequest(l)
	l.First = v.FirstAnswer()
	s.Unlock()
	d.Keep(s)
	d.Publish(s)
	d.Release(s)
	return waited, (m.Common + 1) / 2
}

// Slots are those of the specification of clusters.
func TestSlot(t *testing.T) {
	for key, want := range map[string]uint16{
		"123456789": 12739, "foo": 12182, "{foo}.bar": 12182, "t:session:{foo}:1": 12182, "{foo}{bar}": 12182, "bar": 5061,
	} {
		if got := slot(key); got != want {
			t.Errorf("slot of %q: got %d, want %d", key, got, want)
		}
	}
}
