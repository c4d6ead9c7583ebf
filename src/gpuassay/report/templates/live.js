"use strict";
const written = new Date(document.querySelector("time").dateTime);
const age = document.getElementById("age");
const tell = () => { age.textContent = `, ${Math.max(0, Math.round((Date.now() - written) / 1000))} s ago`; };
tell();
setInterval(tell, 1000);
