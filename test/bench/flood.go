// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	floodBodies = 64
	floodSize   = 31 << 20
	// floodRest is the time for returning memory to the system.
	floodRest = 20 * time.Second
)

// flood prints the memory that many large concurrent bodies take, with a separate process for each
// row, and the memory some time later. A bomb is a tiny body that decompresses to the same size.
func (b *bench) flood(ctx context.Context) error {
	plain := floodBody(func(int) string { return strconv.Itoa(rand.IntN(1_000_000)) + " is a number of many\\n" })
	bomb := floodBody(func(int) string { return "x" })
	kinds := []struct {
		name, coding string
		body         []byte
	}{{"plain", "", plain}, {"gzip", "gzip", packed(plain)}, {"bomb", "gzip", packed(bomb)}}
	fmt.Printf("\n## %d bodies of %d MiB at once\n\n", floodBodies, floodSize>>20)
	fmt.Println("| body | sent | status | Caddy | answered | peak RSS, MB | RSS after 20 s, MB | seconds | processor " +
		"seconds |")
	fmt.Println("| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
	for _, kind := range kinds {
		for _, status := range []int{http.StatusUnauthorized, http.StatusOK} {
			for i, policy := range append([]string{""}, b.policies...) {
				dir, err := os.MkdirTemp("", "llm_cache-flood-"+strconv.Itoa(i)+"-")
				if err != nil {
					return err
				}
				err = b.floodOne(ctx, dir, policy, kind.name, kind.coding, kind.body, status)
				_ = os.RemoveAll(dir)
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) floodOne(ctx context.Context, dir, policy, name, coding string, body []byte, status int) error {
	t, err := startTarget(ctx, b.binary, dir, policy, "", b.upstream.addr)
	if err != nil {
		return err
	}
	defer t.stop()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: floodBodies}}
	defer client.CloseIdleConnections()
	begun := time.Now()
	answers := make(map[int]int)
	var mu sync.Mutex
	used, err := t.cpu(func() error {
		var all sync.WaitGroup
		for range floodBodies {
			all.Go(func() {
				code := floodSend(ctx, client, t.addr, coding, body, status)
				mu.Lock()
				defer mu.Unlock()
				answers[code]++
			})
		}
		all.Wait()
		return nil
	})
	if err != nil {
		return err
	}
	took := time.Since(begun)
	peak, err := memoryOf(t.process.PID(), "VmHWM")
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(floodRest):
	}
	rest, err := memoryOf(t.process.PID(), "VmRSS")
	if err != nil {
		return err
	}
	var said []string
	for code, n := range answers {
		said = append(said, fmt.Sprintf("%d × %d", n, code))
	}
	slices.Sort(said)
	fmt.Printf("| %s | %d KB | %d | %s | %s | %d | %d | %.1f | %.1f |\n", name, len(body)>>10, status, t.name,
		strings.Join(said, ", "), peak>>20, rest>>20, took.Seconds(), used.Seconds())
	return nil
}

// floodSend returns the status of the response, 0 for none.
func floodSend(ctx context.Context, client *http.Client, addr, coding string, body []byte, status int) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(headerStatus, strconv.Itoa(status))
	if coding != "" {
		req.Header.Set("Content-Encoding", coding)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return 0
	}
	return res.StatusCode
}

// floodBody returns a request with large texts.
func floodBody(text func(i int) string) []byte {
	b := bytes.NewBufferString(`{"model":"claude-opus-4-6","max_tokens":100,"messages":[{"role":"user","content":[`)
	for i := 0; b.Len() < floodSize; {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"type":"text","text":"`)
		for end := b.Len() + 64<<10; b.Len() < end; i++ {
			b.WriteString(text(i))
		}
		b.WriteString(`"}`)
	}
	b.WriteString(`]}]}`)
	return b.Bytes()
}

func packed(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body)
	_ = z.Close()
	return b.Bytes()
}

// memoryOf returns a size from a process's status in Linux, in bytes.
func memoryOf(pid int, name string) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("memory of the process: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			var kb int64
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				return 0, fmt.Errorf("memory of the process: %w", err)
			}
			return kb << 10, nil
		}
	}
	return 0, fmt.Errorf("memory of the process: no %s", name)
}
