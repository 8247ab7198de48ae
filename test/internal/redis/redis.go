// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package redis runs Redis servers from Debian's packages, for tests.
package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/process"
)

// ErrMissing reports that Redis is not installed.
var ErrMissing = errors.New("no Redis is installed: apt-get install redis-server")

// Server is a Redis server without persistence.
type Server struct {
	// Addr is the address of the server, running or not.
	Addr string

	dir  string
	args []string
	tls  []string // flags of redis-cli
	cmd  *exec.Cmd
	done chan struct{}
}

// New makes a server in its own folder, at an address of the loopback interface, without starting
// it. args are further settings with two leading dashes.
func New(dir, addr string, args ...string) (*Server, error) {
	for _, program := range []string{"redis-server", "redis-cli"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, ErrMissing
		}
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	s := &Server{Addr: addr, dir: dir}
	s.args = append([]string{
		"--port", port, "--bind", host, "--dir", dir, "--save", "", "--logfile",
		filepath.Join(dir, "log"),
	}, args...)
	return s, nil
}

// NewTLS makes a server that accepts only TLS connections, with the files of a certificate and its
// key. ca is the file of the issuing authority.
func NewTLS(dir, addr, cert, key, ca string) (*Server, error) {
	_, port, _ := net.SplitHostPort(addr)
	s, err := New(dir, addr, "--port", "0", "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", ca, "--tls-auth-clients", "no")
	if err == nil {
		s.tls = []string{"--tls", "--cacert", ca}
	}
	return s, err
}

// NewSentinel makes a sentinel that watches a server under the name main.
func NewSentinel(dir, addr, watched string) (*Server, error) {
	s, err := New(dir, addr)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(watched)
	config := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor main %s %s 1\nsentinel down-after-milliseconds main 1000\nsentinel "+
		"failover-timeout main 5000\n", host, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	_, sentinel, _ := net.SplitHostPort(addr)
	s.args = []string{
		config, "--sentinel", "--port", sentinel, "--bind", host, "--dir", dir, "--logfile",
		filepath.Join(dir, "log"),
	}
	return s, nil
}

// Start starts the server and waits until it responds.
func (s *Server) Start(ctx context.Context) error {
	cmd := exec.Command("redis-server", s.args...) //nolint:gosec // G204: tests say with what
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	s.cmd, s.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(s.done)
	if err := s.Until(ctx, "PONG", "PING"); err != nil {
		s.Kill()
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("%w\n%s", err, log)
	}
	return nil
}

// Do runs a command and returns the server's response in redis-cli's format.
func (s *Server) Do(ctx context.Context, args ...string) (string, error) {
	host, port, _ := net.SplitHostPort(s.Addr)
	all := append(append([]string{"-h", host, "-p", port}, s.tls...), args...)
	out, err := exec.CommandContext(ctx, "redis-cli", all...).CombinedOutput()
	said := strings.TrimSpace(string(out))
	if err != nil {
		return said, fmt.Errorf("redis: %s: %w: %s", strings.Join(args, " "), err, said)
	}
	return said, nil
}

// Until repeats a command until the server's response contains a text.
func (s *Server) Until(ctx context.Context, text string, args ...string) error {
	for {
		said, err := s.Do(ctx, args...)
		if err == nil && strings.Contains(said, text) {
			return nil
		}
		select {
		case <-s.done:
			return errors.New("redis: the server has ended")
		case <-ctx.Done():
			return fmt.Errorf("redis: %s says %q, and never %q", strings.Join(args, " "), said, text)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kill kills the server. Its data are lost.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

// Pause stops the process with all connections open, until [Server.Resume].
func (s *Server) Pause() { _ = process.Pause(s.cmd.Process) }

// Resume ends a pause.
func (s *Server) Resume() { _ = process.Resume(s.cmd.Process) }
