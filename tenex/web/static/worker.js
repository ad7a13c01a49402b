// Shows a notification's page when it is pressed. It keeps nothing and answers no request.
addEventListener("notificationclick", (event) => {
  event.notification.close();
  const open = async () => {
    const tabs = await clients.matchAll({ type: "window", includeUncontrolled: true });
    const tab = tabs.find((one) => one.url === event.notification.data);
    await (tab ? tab.focus() : clients.openWindow(event.notification.data));
  };
  event.waitUntil(open());
});
