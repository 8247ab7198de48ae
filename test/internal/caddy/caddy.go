// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package caddy runs a built Caddy like users do: as a process with a configuration file, an admin
// endpoint and a log.
package caddy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/process"
)

// Build builds cmd/caddy of the module in the folder root into the file out.
func Build(ctx context.Context, root, out string) error {
	return BuildCommand(ctx, root, "./cmd/caddy", out)
}

// BuildCommand does the same with another command.
func BuildCommand(ctx context.Context, root, command, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, command)
	cmd.Dir = root
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", command, err, b)
	}
	return nil
}

// reserved are UDP sockets that reserve addresses across processes. They stay open until this process
// ends.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// FreeAddrs returns n free loopback addresses and reserves them.
func FreeAddrs(n int) ([]string, error) {
	reserved.Lock()
	defer reserved.Unlock()
	addrs := make([]string, 0, n)
	for range 1000 {
		if len(addrs) == n {
			return addrs, nil
		}
		// Ports for outgoing connections are avoided: these could be taken before Caddy starts.
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(22000)) //nolint:gosec // G404: any free port will do
		reservation, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			_ = reservation.Close()
			continue
		}
		_ = l.Close()
		reserved.sockets = append(reserved.sockets, reservation)
		addrs = append(addrs, addr)
	}
	return nil, errors.New("free address: no port is free")
}

// Process is a running Caddy.
type Process struct {
	// Admin is the host and port of the admin endpoint.
	Admin string
	// LogFile is the file with the process's output.
	LogFile string

	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start runs the binary with a Caddyfile, in the folder dir, which is also its home, and waits
// until it serves. The Caddyfile must set the admin endpoint to the address admin. The variables in
// env are added to a minimal environment.
func Start(ctx context.Context, binary, dir, admin, caddyfile string, env ...string) (*Process, error) {
	config := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(config, []byte(caddyfile), 0o600); err != nil {
		return nil, fmt.Errorf("start caddy: %w", err)
	}
	cmd := exec.Command(binary, "run", "--adapter", "caddyfile", "--config", config)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" +
		dir}, env...)
	return Run(ctx, cmd, admin, filepath.Join(dir, "caddy.log"))
}

// Run starts a prepared command that runs Caddy with its admin endpoint at the address admin. It
// redirects the output to logFile, and waits until Caddy serves.
func Run(ctx context.Context, cmd *exec.Cmd, admin, logFile string) (*Process, error) {
	log, err := os.Create(logFile)
	if err != nil {
		return nil, fmt.Errorf("start caddy: %w", err)
	}
	// A command ends with the last process that writes to its pipe: `go run` ends before its child.
	output := struct{ io.Writer }{log}
	cmd.Stdout, cmd.Stderr = output, output
	// With a separate process group the children of `go run` can be stopped, too.
	process.Group(cmd)
	if err := cmd.Start(); err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("start caddy: %w", err)
	}
	p := &Process{Admin: admin, LogFile: logFile, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		_ = log.Close()
		close(p.done)
	}()
	if err := p.ready(ctx); err != nil {
		_ = p.Stop() // err says more
		return nil, fmt.Errorf("start caddy: %w\n%s", err, p.LogTail())
	}
	return p, nil
}

func (p *Process) ready(ctx context.Context) error {
	for {
		select {
		case <-p.done:
			return fmt.Errorf("ended at once: %w", p.err)
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
		var apps struct {
			Apps map[string]json.RawMessage `json:"apps"`
		}
		// The admin endpoint shows a configuration only after all of it is running.
		if p.Get(ctx, "/config/", &apps) == nil && apps.Apps["http"] != nil {
			return nil
		}
	}
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop terminates the process and its children, and kills them after ten seconds. It returns an
// error if the process had ended before or had to be killed.
func (p *Process) Stop() error {
	select {
	case <-p.done:
		return fmt.Errorf("caddy had ended before it was stopped: %w", p.err)
	default:
	}
	_ = process.Terminate(p.cmd.Process)
	select {
	case <-p.done:
		return nil
	case <-time.After(10 * time.Second):
	}
	_ = process.Kill(p.cmd.Process)
	<-p.done
	return errors.New("caddy did not end within 10 s and was killed")
}

// Kill kills the process at once, like a crash.
func (p *Process) Kill() {
	_ = process.Kill(p.cmd.Process)
	<-p.done
}

// Reload loads a Caddyfile like `caddy reload --force`.
func (p *Process) Reload(ctx context.Context, caddyfile string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.Admin+"/load", strings.NewReader(caddyfile))
	if err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	req.Header.Set("Content-Type", "text/caddyfile")
	req.Header.Set("Cache-Control", "must-revalidate")
	return p.do(req, nil)
}

// Get requests a path of the admin endpoint and decodes the JSON response into v, unless v is nil.
func (p *Process) Get(ctx context.Context, path string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+path, nil)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	return p.do(req, v)
}

func (p *Process) do(req *http.Request, v any) error {
	what := req.Method + " " + req.URL.Path
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("admin: %s: %w", what, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("admin: %s: %s: %s", what, resp.Status, b)
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("admin: %s: %w in %s", what, err, b)
	}
	return nil
}

// LogTail returns the last lines of the log.
func (p *Process) LogTail() string {
	b, err := os.ReadFile(p.LogFile)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-40):], []byte("\n")))
}
