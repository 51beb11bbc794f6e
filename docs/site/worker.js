// Searching, where the site is opened from a file: browsers start no workers there, so what the theme would run in one runs in a
// hidden frame. The theme's own way to do that is a script that it fetches from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow, page = inside.document;
      page.open();
      page.write("<!doctype html><body></body>");
      page.close();
      const address = new URL(url, location);
      const load = one => new Promise((loaded, failed) => {
        const script = page.createElement("script");
        Object.assign(script, {src: new URL(one, address), onload: loaded, onerror: failed});
        page.body.append(script);
      });
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      inside.importScripts = async (...urls) => { for (const one of urls) await load(one); };
      this.loaded = load(address);
    }
    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
