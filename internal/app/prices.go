// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/version"
)

// PricesFrom refreshes cache rules and prices from a models file at a URL. The file is
// kept in Caddy's storage. Neither the start nor a request waits for it.
type PricesFrom struct {
	// URL is the address of the models file, by http or https. It may be named by placeholders.
	URL string `json:"url"`
	// Every is the time between two refreshes, 1m or more. Default: 24h.
	Every caddy.Duration `json:"every,omitempty"`
	// Key is an Ed25519 public key in base64, as in a PEM file. The signature of the file
	// must lie at the URL with .sig behind it, raw or in base64. Either this or SHA256
	// must be given.
	Key string `json:"key,omitempty"`
	// SHA256 is the hash of the only file that is accepted, in hexadecimal digits.
	SHA256 string `json:"sha256,omitempty"`

	key  ed25519.PublicKey
	hash []byte
}

const (
	defaultRefresh = 24 * time.Hour
	minRefresh     = time.Minute
	fetchTime      = 30 * time.Second
	maxModelsFile  = 4 << 20
)

// provision fills in the default, reads the pin and reports the first invalid member.
func (p *PricesFrom) provision() error {
	if p == nil {
		return nil
	}
	at, err := url.Parse(option.Expand(p.URL))
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("url must be an address by http or https, got %q", p.URL)
	}
	if p.Every == 0 {
		p.Every = caddy.Duration(defaultRefresh)
	}
	if every := time.Duration(p.Every); every < minRefresh {
		return fmt.Errorf("every must be %s or more, got %s", minRefresh, every)
	}
	switch {
	case (p.Key == "") == (p.SHA256 == ""):
		return errors.New("either key or sha256 must be given")
	case p.Key != "":
		der, err := base64.StdEncoding.DecodeString(p.Key)
		if err == nil && len(der) == ed25519.PublicKeySize {
			p.key = der
			return nil
		}
		public, err := x509.ParsePKIXPublicKey(der)
		key, ok := public.(ed25519.PublicKey)
		if err != nil || !ok {
			return errors.New("key must be an Ed25519 public key in base64, as `openssl pkey -pubout` writes it")
		}
		p.key = key
	default:
		if p.hash, err = hex.DecodeString(p.SHA256); err != nil || len(p.hash) != sha256.Size {
			return fmt.Errorf("sha256 must be %d hexadecimal digits, got %q", 2*sha256.Size, p.SHA256)
		}
	}
	return nil
}

func (p *PricesFrom) verify(text, signature []byte) error {
	if p.key == nil {
		if sum := sha256.Sum256(text); !bytes.Equal(sum[:], p.hash) {
			return fmt.Errorf("sha256 is %x, not that of the configuration", sum)
		}
		return nil
	}
	// A signature may be raw or in base64.
	if raw, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(signature))); err == nil {
		signature = raw
	}
	if !ed25519.Verify(p.key, text, signature) {
		return errors.New("the signature is not by the key of the configuration")
	}
	return nil
}

// fetch reads the file, and its signature where the pin is a key.
func (p *PricesFrom) fetch(ctx context.Context) (text, signature []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	address := option.Expand(p.URL)
	if text, err = download(ctx, address); err != nil || p.key == nil {
		return text, nil, err
	}
	signature, err = download(ctx, address+".sig")
	return text, signature, err
}

func download(ctx context.Context, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", version.Agent())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", address, res.Status)
	}
	// One byte more shows that the file is too long.
	text, err := io.ReadAll(io.LimitReader(res.Body, maxModelsFile+1))
	if err == nil && len(text) > maxModelsFile {
		err = fmt.Errorf("%s has more than %d bytes", address, maxModelsFile)
	}
	return text, err
}

func (a *App) provisionPrices(ctx caddy.Context) error {
	if err := a.PricesFrom.provision(); err != nil {
		return fmt.Errorf("prices_from: %w", err)
	}
	if name := option.Expand(a.PricesFile); name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("prices: %w", err)
		}
		a.ownPrices = &namedText{name, text}
	}
	base := pricing.BuiltIn()
	// A users file may add budgets later.
	if a.RefusesUnknown() || a.usersPath != "" || a.users.Load().Budgets.InDollars() {
		base = base.PricingAll() // a misspelt name is no way around a budget or a refusal
	}
	table, err := a.ownPrices.over(base)
	if err != nil {
		return fmt.Errorf("prices: %w", err)
	}
	a.prices = table
	if a.PricesFrom != nil {
		a.prices, a.base, a.storage = table.Refreshable(), base, ctx.Storage()
	}
	return nil
}

type namedText struct {
	name string
	text []byte
}

func (n *namedText) over(t *pricing.Table) (*pricing.Table, error) {
	if n == nil {
		return t, nil
	}
	return t.With(n.name, n.text)
}

// storage is the part of Caddy's storage that keeps the file.
type storage interface {
	Load(ctx context.Context, key string) ([]byte, error)
	Store(ctx context.Context, key string, value []byte) error
}

// refreshPrices keeps the table up to date until the context ends.
func (a *App) refreshPrices(ctx context.Context) {
	if a.PricesFrom == nil {
		return
	}
	go httpx.Background("refreshing prices", func() {
		// The stored file counts until the URL has answered.
		a.loadPrices(ctx)
		ticker := time.NewTicker(time.Duration(a.PricesFrom.Every))
		defer ticker.Stop()
		for ctx.Err() == nil {
			text, signature, err := a.PricesFrom.fetch(ctx)
			if err == nil {
				err = a.usePrices(text, signature)
			}
			if err == nil {
				err = a.storePrices(ctx, text, signature)
			}
			if err != nil && ctx.Err() == nil {
				a.logger.Warn("refreshing prices: those before stay in force", zap.String("url", a.PricesFrom.URL), zap.Error(err))
			}
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	})
}

// usePrices puts a file in force, unless the built-in table is newer.
func (a *App) usePrices(text, signature []byte) error {
	if err := a.PricesFrom.verify(text, signature); err != nil {
		return err
	}
	fresh, err := a.base.With(path.Base(a.PricesFrom.URL), text)
	if err != nil {
		return err
	}
	// The program may be newer than the file at the URL.
	if day := pricing.CollectedOf(text); day.Before(pricing.Collected()) {
		a.logger.Info("prices of the program are newer than those of prices_from", zap.Time("built_in", pricing.Collected()),
			zap.Time("fetched", day))
		return nil
	}
	// The operator's own file stays in front.
	if fresh, err = a.ownPrices.over(fresh); err != nil {
		return err
	}
	a.prices.Replace(fresh)
	a.logger.Info("prices refreshed", zap.Time("collected", fresh.Collected()))
	return nil
}

func (p *PricesFrom) pricesKey() string {
	sum := sha256.Sum256([]byte(option.Expand(p.URL)))
	return "llm_cache/prices/" + hex.EncodeToString(sum[:8]) + ".json"
}

func (a *App) loadPrices(ctx context.Context) {
	key := a.PricesFrom.pricesKey()
	text, err := a.storage.Load(ctx, key)
	if err != nil {
		return // there is none yet
	}
	var signature []byte
	if a.PricesFrom.key != nil {
		signature, err = a.storage.Load(ctx, key+".sig")
	}
	if err == nil {
		err = a.usePrices(text, signature)
	}
	if err != nil {
		a.logger.Warn("stored prices cannot be used", zap.Error(err))
	}
}

func (a *App) storePrices(ctx context.Context, text, signature []byte) error {
	key := a.PricesFrom.pricesKey()
	if signature != nil {
		if err := a.storage.Store(ctx, key+".sig", signature); err != nil {
			return err
		}
	}
	return a.storage.Store(ctx, key, text)
}

// parsePricesFrom parses the address of a models file. Syntax:
//
//	prices_from <url> [every <duration>] key <base64>|sha256 <digits>
func (a *App) parsePricesFrom(d *caddyfile.Dispenser) error {
	if a.PricesFrom != nil {
		return d.Err("duplicate option \"prices_from\"")
	}
	args := d.RemainingArgs()
	if len(args)%2 == 0 {
		return d.Err("prices_from: expected <url> [every <duration>] key <base64>|sha256 <digits>")
	}
	p := &PricesFrom{URL: args[0]}
	for i := 1; i < len(args); i += 2 {
		switch value := args[i+1]; args[i] {
		case "every":
			every, err := caddy.ParseDuration(value)
			if err != nil {
				return d.Errf("prices_from: every: %v", err)
			}
			p.Every = caddy.Duration(every)
		case "key":
			p.Key = value
		case "sha256":
			p.SHA256 = value
		default:
			return d.Errf("prices_from must be one of every, key, sha256, got %q", args[i])
		}
	}
	if err := p.provision(); err != nil {
		return d.Errf("prices_from: %v", err)
	}
	a.PricesFrom = p
	return nil
}
